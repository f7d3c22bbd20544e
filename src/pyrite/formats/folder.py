"""The files of a hub folder: which ones hold the weights, and that all lie inside the folder.

Names come from an index that somebody else wrote, so none may lead out of the folder: no paths, and
no link whose target is elsewhere. The hub's own cache is the one exception: there a snapshot's
files are links to the blobs folder beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import INDEX
from pyrite.formats.json_file import read_json

SINGLE = "model.safetensors"


def inside(folder: Path, name: str, model: Path | None = None) -> Path:
    """The path of a file of the folder, or with `model` of a folder in that one.

    Raises FormatError when `name` leads out of it.
    """
    if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\x00" in name:
        raise FormatError(f"{folder.name} names a file outside itself: {name!r}")
    path = folder / name
    target = path.resolve()
    if path.is_symlink() and not target.exists() and model is None:
        raise FormatError(
            f"{path} is a link to {target}, which is not there", hint="fetch the file again"
        )
    if not any(target.parent == root for root in (folder.resolve(), *_roots(model or folder))):
        raise FormatError(
            f"{path} is a link to {target}, outside the model's folder",
            hint="put the file itself into the folder",
        )
    return path


def optional_json(folder: Path, name: str) -> dict[str, Any] | None:
    path = inside(folder, name)
    return read_json(path) if path.is_file() else None


def weight_files(folder: Path) -> tuple[tuple[Path, ...], dict[str, str] | None]:
    """The safetensors files, and the index's tensor -> file name, None when there is no index.

    Raises FormatError when files are missing, or it is not clear which ones are meant.
    """
    if (folder / SINGLE).is_file():
        return (inside(folder, SINGLE),), None
    index = optional_json(folder, INDEX)
    if index is not None:
        return _indexed(folder, index)
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if len(names) == 1:
        return (inside(folder, names[0]),), None
    if names:
        raise FormatError(
            f"{folder} holds {len(names)} safetensors files and no {INDEX}",
            hint="fetch the index too: it says which tensor is in which file",
        )
    pickled = sorted(path.name for kind in ("*.bin", "*.pt*") for path in folder.glob(kind))
    beside = f", but {_listed(pickled)}" if pickled else ""
    raise FormatError(
        f"{folder} holds no safetensors file{beside}",
        hint="PyTorch files (pickles) are never read: they can run code; take safetensors"
        if pickled
        else "fetch the model's weights into the folder",
    )


def _indexed(folder: Path, index: dict[str, Any]) -> tuple[tuple[Path, ...], dict[str, str]]:
    names = index.get("weight_map")
    if not isinstance(names, dict) or not names:
        raise FormatError(f"{INDEX}: weight_map is not an object of tensor names")
    for tensor, name in names.items():
        if not isinstance(name, str):
            raise FormatError(f"{INDEX}: {tensor} = {name!r}: must be a file's name")
    files = sorted(set(names.values()))
    paths = tuple(inside(folder, name) for name in files)
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise FormatError(
            f"{folder} lacks {len(missing)} of {len(files)} files that {INDEX} names: "
            f"{_listed(missing)}",
            hint="fetch all files of the model",
        )
    return paths, names


def _roots(folder: Path) -> tuple[Path, ...]:
    own = folder.resolve()
    blobs = (own.parent.parent / "blobs",) if own.parent.name == "snapshots" else ()
    return (own, *blobs)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
