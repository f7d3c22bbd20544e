"""The parts of a split GGUF model: found beside the one that was opened, and checked to belong.

Parts are named NAME-00001-of-00003.gguf; each says its number and how many there are, and only the
first holds the model's metadata. Which tensors a model needs is unknown here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyrite.errors import FormatError
from pyrite.formats.gguf import GgufFile, read_gguf
from pyrite.formats.metadata import integer
from pyrite.formats.part_names import PART, part_path

MAX_PARTS = 99999  # what five digits can name


def read_parts(opened: GgufFile) -> tuple[GgufFile, ...]:
    """All parts of the model that `opened` belongs to, in order; `opened` alone when not split.

    Raises FormatError naming what is missing or does not belong.
    """
    count = integer(opened.metadata, "split.count", 0, MAX_PARTS, default=1)
    if count <= 1:
        return (opened,)
    paths = _siblings(opened, count)
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FormatError(
            f"{opened.path.name} is one of {count} parts; missing: {_listed(missing)}",
            hint="fetch all parts into one folder",
        )
    parts = tuple(opened if path == opened.path else read_gguf(path) for path in paths)
    _check_parts(parts, count)
    return parts


def _siblings(opened: GgufFile, count: int) -> list[Path]:
    match = PART.fullmatch(opened.path.name)
    if match is None or int(match["count"]) != count:
        raise FormatError(
            f"{opened.path.name} is one of {count} parts, and its name does not say which",
            hint=f"name the parts NAME-00001-of-{count:05d}.gguf and so on",
        )
    stem, folder = match["stem"], opened.path.parent
    return [part_path(folder, stem, number, count) for number in range(1, count + 1)]


def _check_parts(parts: Sequence[GgufFile], count: int) -> None:
    for index, part in enumerate(parts):
        number = integer(part.metadata, "split.no", 0, MAX_PARTS)
        own_count = integer(part.metadata, "split.count", 0, MAX_PARTS)
        if (number, own_count) != (index, count):
            raise FormatError(
                f"{part.path.name} says it is part {number + 1} of {own_count}",
                hint="it was renamed, or belongs to another model",
            )
        _check_shared_keys(parts[0], part)
    _check_tensor_count(parts)


def _check_shared_keys(first: GgufFile, part: GgufFile) -> None:
    """What both say must be the same: the total of tensors, and whatever else is repeated."""
    for key, value in part.metadata.items():
        own = first.metadata.get(key, value)
        comparable = isinstance(value, str | int | float) and key != "split.no"
        if comparable and own != value:
            raise FormatError(
                f"{part.path.name} and {first.path.name} are parts of different models: "
                f"{key} is {value!r} in one and {own!r} in the other",
                hint="fetch all parts from one place",
            )


def _check_tensor_count(parts: Sequence[GgufFile]) -> None:
    total = sum(len(part.tensors) for part in parts)
    stated = integer(parts[0].metadata, "split.tensors.count", 0, 1 << 31, default=total)
    if stated != total:
        raise FormatError(
            f"the parts of {parts[0].path.name} hold {total} tensors together and should hold "
            f"{stated}",
            hint="a part belongs to another model; fetch all parts from one place",
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
