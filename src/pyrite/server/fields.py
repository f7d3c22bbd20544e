"""What becomes of each field of a request: used, refused, or ignored and said so.

One table a request: the fields of its type are the used ones, the others are listed with a reason.
Requests are checked by it, the header of what was ignored is made from it, and so is the
documentation. Knows no dialect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import inspect

from pyrite.errors import ParameterError

HEADER = b"x-pyrite-ignored"
MAX_NAMED = 32  # names in the header; of more only the number is told
MAX_IGNORED = 1000  # fields of one request
WORD = re.compile(r"[A-Za-z0-9_.\[\]-]{1,64}")


@dataclass(frozen=True, slots=True)
class Refused:
    """`why` also says what to do instead. `harmless` values ask for nothing, and pass."""

    why: str
    harmless: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Ignored:
    """`harmless` values are what is done anyway, and need not be told. A value is of the type
    `kind`, which `limit` tells in words."""

    why: str
    harmless: tuple[object, ...] = ()
    kind: Any = Any
    limit: str = ""

    def check(self, where: str, value: object) -> None:
        """Raises ParameterError."""
        try:
            msgspec.convert(value, self.kind)
        except msgspec.ValidationError:
            raise ParameterError(where, value, self.limit) from None


class Row(NamedTuple):
    """One line of the documentation."""

    name: str
    fate: Literal["used", "refused", "ignored"]
    words: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Where structs lie in the JSON of a request; `kinds` by their tag, "" where there is none."""

    tag: str = ""
    kinds: Mapping[str, Mapping[str, Shape | None]] = field(default_factory=dict)
    items: Shape | None = None  # of a list


@dataclass(frozen=True, slots=True)
class Fields:
    """The table of one request. Names are paths: `tools[].strict` is a field of each tool.

    `words` tell of used fields what their type does not.
    """

    kind: type[msgspec.Struct]
    refused: Mapping[str, Refused] = field(default_factory=dict)
    ignored: Mapping[str, Ignored | str] = field(default_factory=dict)  # a text is the reason alone
    words: Mapping[str, str] = field(default_factory=dict)
    shape: Shape = field(init=False)

    def __post_init__(self) -> None:
        shape = shape_of(inspect.type_info(self.kind))
        assert shape is not None, self.kind
        object.__setattr__(self, "shape", shape)
        used = set(self.used())
        for names in (self.refused, self.ignored):
            assert used.isdisjoint(names), used & set(names)
        assert set(self.refused).isdisjoint(self.ignored)

    def used(self) -> tuple[str, ...]:
        """Top-level names."""
        return tuple(one.encode_name for one in msgspec.structs.fields(self.kind))

    def check(self, raw: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of fields that were given and change nothing, each once.

        `null` is as good as absent. Raises ParameterError for what is refused, and for objects of
        an unknown kind; other faults of what is used are left to the conversion.
        """
        found: dict[str, None] = {}
        for where, name, value in self._strangers(raw, self.shape, "", ""):
            refusal = self.refused.get(name)
            if refusal is None:
                ignored = self.ignored.get(name, "")
                if not isinstance(ignored, str):
                    ignored.check(where, value)
                if isinstance(ignored, str) or not is_one_of(value, ignored.harmless):
                    found[name] = None
                if len(found) > MAX_IGNORED:
                    limit = f"one of at most {MAX_IGNORED} fields that are not known"
                    raise ParameterError(where, value, limit)
            elif not is_one_of(value, refusal.harmless):
                raise ParameterError(where, value, limit_of(refusal), hint=refusal.why)
        return tuple(found)

    def _strangers(
        self, value: Any, shape: Shape, where: str, name: str
    ) -> Iterator[tuple[str, str, object]]:
        """Fields that no struct has: where each is, its name in the table, its value."""
        if isinstance(value, list) and shape.items:
            for index, item in enumerate(value):
                yield from self._strangers(item, shape.items, f"{where}[{index}]", f"{name}[]")
        if not isinstance(value, dict) or not shape.kinds:
            return
        members = self._members(value, shape, where, name)
        for key, item in value.items():
            place = (f"{where}.{key}", f"{name}.{key}") if where else (key, key)
            if key not in members:
                if item is not None:
                    yield *place, item
            elif (inner := members[key]) is not None:
                yield from self._strangers(item, inner, *place)

    def _members(
        self, value: Mapping[str, Any], shape: Shape, where: str, name: str
    ) -> Mapping[str, Shape | None]:
        tag = value.get(shape.tag) if shape.tag else ""
        if isinstance(tag, str) and tag in shape.kinds:
            return shape.kinds[tag]
        refusal = self.refused.get(f"{name}.{shape.tag}")
        limit = " or ".join(f'"{kind}"' for kind in shape.kinds)
        hint = refusal.why if refusal else ""
        raise ParameterError(f"{where}.{shape.tag}", tag, limit, hint=hint)

    def rows(self) -> list[Row]:
        """The documentation, used ones first."""
        rows = [Row(name, "used", self.words.get(name, "")) for name in self.used()]
        rows += [Row(name, "refused", refusal.why) for name, refusal in self.refused.items()]
        for name, ignored in self.ignored.items():
            rows.append(Row(name, "ignored", ignored if isinstance(ignored, str) else ignored.why))
        return rows


def is_one_of(value: object, known: Sequence[object]) -> bool:
    return any(type(value) is type(one) and value == one for one in known)


def limit_of(refusal: Refused) -> str:
    values = [msgspec.json.encode(value).decode() for value in refusal.harmless]
    return " or ".join(["absent", *values])


def shape_of(info: inspect.Type) -> Shape | None:
    """None where no struct can be."""
    if isinstance(info, inspect.StructType):
        return Shape(info.tag_field or "", {str(info.tag or ""): members_of(info)})
    if isinstance(info, (inspect.ListType, inspect.VarTupleType)):
        items = shape_of(info.item_type)
        return Shape(items=items) if items else None
    if isinstance(info, inspect.UnionType):
        return joined([shape for one in info.types if (shape := shape_of(one))])
    return None


def members_of(info: inspect.StructType) -> dict[str, Shape | None]:
    members = {one.encode_name: shape_of(one.type) for one in info.fields}
    return {info.tag_field: None, **members} if info.tag_field else members


def joined(shapes: Sequence[Shape]) -> Shape | None:
    """One shape for a union: its structs are told apart by their tag."""
    if len(shapes) < 2:
        return shapes[0] if shapes else None
    kinds = {tag: members for shape in shapes for tag, members in shape.kinds.items()}
    tags = [shape.tag for shape in shapes if shape.tag]
    items = [shape.items for shape in shapes if shape.items]
    return Shape(tags[0] if tags else "", kinds, items[0] if items else None)


def header_of(names: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """The header that lists what was ignored; none where nothing was.

    Names are the client's: what a header cannot carry is told by number alone.
    """
    told = [name for name in names if WORD.fullmatch(name)][:MAX_NAMED]
    if len(told) < len(names):
        told.append(f"and-{len(names) - len(told)}-more")
    return ((HEADER, ", ".join(told).encode()),) if told else ()
