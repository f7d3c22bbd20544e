"""`dataclass`, made quickly where it is frozen and slotted, as nearly all of ours are.

The standard one writes and compiles six methods for each class: half a millisecond, and a start
makes eighty classes. Here only `__init__` is written; the other methods are the same for all. What
one can see is the same: errors, `repr`, equality, hash, pickling, `replace`, `fields`, matching.
Any other kind of dataclass is the standard one.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    from operator import attrgetter

    FIELDS_ALONE = {"init": False, "repr": False, "eq": False, "slots": True}

    def dataclass(cls=None, /, **options):
        if cls is not None or options != {"frozen": True, "slots": True}:
            return dataclasses.dataclass(cls, **options)
        return _record

    def _record(cls):
        """The class with its fields, slots and methods."""
        cls.__doc__ = cls.__doc__ or cls.__name__  # the standard one would print a signature
        own = vars(cls)
        made = dataclasses.dataclass(**FIELDS_ALONE)(cls)
        fields = dataclasses.fields(made)
        made.__init__ = _init_of(made, fields)
        made._shown = tuple(field.name for field in fields if field.repr)
        made._kept = tuple(field.name for field in fields)
        made._compared = _values_of([field.name for field in fields if field.compare])
        for method in METHODS:
            if own.get(method.__name__) is None:
                setattr(made, method.__name__, method)
        return made

    def _values_of(names):
        return attrgetter(*names) if names else staticmethod(lambda record: ())

    def _init_of(cls, fields):
        known = {"put": object.__setattr__, "ABSENT": dataclasses.MISSING}
        parameters, lines = ["self"], []
        for field in fields:
            name = value = field.name
            default = ""
            if field.default is not dataclasses.MISSING:
                known[f"default_{name}"] = field.default
                default = f"default_{name}"
            elif field.default_factory is not dataclasses.MISSING:
                known[f"make_{name}"] = field.default_factory
                default = "ABSENT"
                value = f"make_{name}() if {name} is ABSENT else {name}"
            if field.init:
                parameters.append(f"{name}={default}" if default else name)
            elif default:
                value = f"make_{name}()" if default == "ABSENT" else default
            else:
                continue
            lines.append(f" put(self, {name!r}, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        return _compiled(cls, ", ".join(parameters), "\n".join(lines or [" pass"]), known)

    def _compiled(cls, parameters, body, known):
        found = {}
        exec(f"def __init__({parameters}):\n{body}", known, found)
        init = found["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        return init

    class Shared:
        """Methods of every record; they are copied, so that no class has another base."""

        def __repr__(self):
            shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._shown)
            return f"{type(self).__qualname__}({shown})"

        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return self._compared(self) == self._compared(other)

        def __hash__(self):
            return hash(self._compared(self))

        def __setattr__(self, name, value):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

        def __getstate__(self):
            return [getattr(self, name) for name in self._kept]

        def __setstate__(self, state):
            for name, value in zip(self._kept, state, strict=True):
                object.__setattr__(self, name, value)

    METHODS = tuple(method for name, method in vars(Shared).items() if callable(method))
