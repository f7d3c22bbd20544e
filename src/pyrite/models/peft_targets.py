"""Which modules an adapter's configuration names, as PEFT reads it, held to the matrices.

PEFT loads what it finds: matrices for a module that is not named are dropped without a word, and a
named module without matrices keeps its beginning, which changes nothing. Both are errors here.

Source: `check_target_module_exists` of the `peft` library.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.models.expression import Expression
from pyrite.models.fields import Fields, shorten
from pyrite.models.hub import DERIVED, LAYER
from pyrite.models.peft_parameters import read_parameters
from pyrite.models.wrapped import SEEING
from pyrite.records import dataclass

ALL = "all-linear"
BIASES = ("none", "all", "lora_only")
NAME = re.compile(r"\w+(\.\w+)*")
# In models as PEFT finds them experts are one parameter or many modules, by the library's version.
EXPERT = re.compile(r"(^|\.)experts\.")
ANOTHER = "configuration and matrices are of different adapters: save it again"
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Targets:
    """`names` is None where the configuration names none, or whatever is linear.

    Names are whole ones or ends, or all that an expression matches. `layers` holds for ends alone;
    `stacks`: what lists of layers are called, by default anything.
    """

    names: Names | Expression | None = None
    excluded: Names | Expression = ()
    layers: frozenset[int] | None = None
    stacks: Names = ()
    bias: str = "none"
    parameters: Names = ()  # of modules, named likewise
    version: str = ""  # of PEFT, where the configuration says

    def has(self, module: str) -> bool:
        """Whether PEFT would adapt it, of a model that has it."""
        if _is_chosen(module, self.excluded):
            return False
        if self.names is None or isinstance(self.names, Expression):
            return self.names is None or self.names.matches(module)
        if module in self.names:
            return True
        return _is_named(module, self.names) and self._is_of_layer(module)

    def _is_of_layer(self, module: str) -> bool:
        if self.layers is None:
            return True
        parts = module.split(".")
        numbers = [
            int(part)
            for index, part in enumerate(parts[:-1])
            if part.isdecimal() and self._is_stack(parts[:index])
        ]
        return bool(numbers) and numbers[0] in self.layers

    def _is_stack(self, before: list[str]) -> bool:
        if not self.stacks:
            return len(before) > 1
        return _is_named(".".join(before), self.stacks)

    def check_named(self, modules: Iterable[str]) -> None:
        """Raises TensorError for matrices that PEFT would leave out."""
        for module in modules:
            if not self.has(module):
                problem = f"it has matrices for {module}, which its configuration does not name"
                raise TensorError(f"{problem} ({self._told()})", hint=ANOTHER)

    def check_whole(self, weights: Mapping[str, str], adapted: Collection[str], like: str) -> None:
        """`weights`: all matrices of the model, as a folder calls each -> as this one does.

        `like`: any name of the adapter's own, for its model may lie in another. Raises TensorError
        for one that is named and not adapted.
        """
        if self.names is None:
            return
        missing = [
            name
            for name, own in weights.items()
            if own not in adapted and self._may_adapt(name) and self.has(_module(name, like))
        ]
        if missing:
            more = f" nor for {len(missing) - 1} more" if len(missing) > 1 else ""
            problem = f"its configuration names {_module(missing[0], like)}, and it has no matrices"
            raise TensorError(f"{problem} for that{more} ({self._told()})", hint=ANOTHER)

    def check_biases(self, biases: Iterable[str], adapted: Collection[str]) -> None:
        """`biases`: names of the model's, as it calls them. Raises TensorError."""
        for name in biases if self.bias != "none" else ():
            if not self._may_adapt(name):
                continue
            if self.bias == "all" or name.removesuffix("bias") + "weight" in adapted:
                problem = f"bias = {self.bias!r}: it was trained with biases, and has none for"
                raise TensorError(f"{problem} {name}", hint=ANOTHER)

    @staticmethod
    def _may_adapt(name: str) -> bool:
        return not (EXPERT.search(name) or SEEING.fullmatch(name) or DERIVED.fullmatch(name))

    def _told(self) -> str:
        told = [f"target_modules = {_shown(self.names or ())}"]
        if self.excluded:
            told.append(f"exclude_modules = {_shown(self.excluded)}")
        if self.layers is not None:
            told.append(f"layers_to_transform = {shorten(sorted(self.layers))}")
        return ", ".join(told)


def read_targets(keys: Fields) -> Targets:
    """Raises FormatError, UnsupportedError."""
    target = keys.get("target_modules")
    is_all = target is None or (isinstance(target, str) and target.lower() == ALL)
    excluded = keys.get("exclude_modules")
    layers, stacks = keys.get("layers_to_transform"), keys.get("layers_pattern")
    if layers in ([], ()):
        layers = None
    for key, value in (("layers_to_transform", layers), ("layers_pattern", stacks)):
        if value and isinstance(target, str):
            raise FormatError(f"{key} = {shorten(value)} beside target_modules = {shorten(target)}")
    if stacks and layers is None:
        raise FormatError(f"layers_pattern = {shorten(stacks)} without layers_to_transform")
    bias = keys.text("bias", "none")
    if bias not in BIASES:
        raise FormatError(f"bias = {shorten(bias)}: must be one of {', '.join(BIASES)}")
    return Targets(
        names=None if is_all else _chosen("target_modules", target),
        excluded=_chosen("exclude_modules", excluded or []),
        layers=None if layers is None else _numbers(layers),
        stacks=_stacks(stacks),
        bias=bias,
        parameters=read_parameters(keys.get("target_parameters")),
        version=keys.text("peft_version", ""),
    )


def _chosen(key: str, value: Any) -> Names | Expression:
    if isinstance(value, str):
        return Expression(key, value)
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise FormatError(f"{key} = {shorten(value)}: must be a list of names, or an expression")
    return tuple(value)


def _numbers(value: Any) -> frozenset[int]:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in items):
        problem = f"layers_to_transform = {shorten(value)}: must be numbers of layers"
        raise FormatError(problem)
    return frozenset(items)


def _stacks(value: Any) -> Names:
    items = [value] if isinstance(value, str) else value
    found = tuple(items) if isinstance(items, list) else ()
    if items and not (found and all(isinstance(one, str) for one in found)):
        raise FormatError(f"layers_pattern = {shorten(value)}: must be a name, or a list of names")
    for one in found:
        if not NAME.fullmatch(one):
            problem = f"layers_pattern has the regular expression {one[:60]!r}: names are read"
            raise UnsupportedError(problem)
    return found


def _is_chosen(module: str, chosen: Names | Expression) -> bool:
    if isinstance(chosen, Expression):
        return chosen.matches(module)
    return _is_named(module, chosen)


def _shown(chosen: Names | Expression) -> str:
    return shorten(chosen.pattern if isinstance(chosen, Expression) else list(chosen))


def _is_named(module: str, names: Names) -> bool:
    return module in names or module.endswith(tuple("." + name for name in names))


def _module(name: str, like: str) -> str:
    """Of a weight, as a model calls it in which `like` is the name of one."""
    module = name.removesuffix(".weight")
    match, other = LAYER.fullmatch(module), LAYER.fullmatch(like)
    if match is None or other is None:
        return module
    return other["before"] + module[match.end("before") :]
