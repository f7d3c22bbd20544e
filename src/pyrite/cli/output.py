"""Where a verb may write a file: nothing is lost, and what stands in the way is said beforehand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.formats.checkpoint import Checkpoint


def files_of(checkpoint: Checkpoint) -> tuple[Path, ...]:
    """All that a model is made of; of a folder whatever lies in it."""
    place = checkpoint.path
    return (*checkpoint.files, *(place.glob("*") if place.is_dir() else ()))


def check_output(
    name: str, out: Path, inputs: Iterable[Path] = (), *, force: bool, ending: str = ""
) -> None:
    """`name` is the argument's, `inputs` what is read for the file.

    Raises ParameterError where a file would be lost, or where none can be.
    """
    shown = str(out)
    if not out.name.endswith(ending):
        raise ParameterError(name, shown, f"the name of a file that ends in {ending}")
    if out.is_dir():
        raise ParameterError(name, shown, "the name of a file: a folder of that name is there")
    if not out.parent.is_dir():
        raise ParameterError(name, shown, "in a folder that is there", hint="mkdir makes it")
    if not os.access(out.parent, os.W_OK):
        raise ParameterError(name, shown, "in a folder that may be written to")
    if out.exists() and any(path.exists() and out.samefile(path) for path in inputs):
        raise ParameterError(name, shown, "another file than those that it is made of")
    if os.path.lexists(out) and not force:
        hint = "--force writes over it"
        if out.is_symlink():
            hint = f"it is a link to {os.readlink(out)}; --force puts the file in its place"
        raise ParameterError(name, shown, "the name of no file that is there", hint=hint)
