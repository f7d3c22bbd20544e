"""How texts become vectors, where a folder says it: modules.json, and what that names.

The model's hidden states are pooled, then perhaps brought to length 1, which whoever asks decides
here. What else may follow (a dense layer) is refused.

Source of the files: what the `sentence-transformers` library writes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pyrite.errors import UnsupportedError
from pyrite.formats.folder import inside
from pyrite.formats.json_file import content_of, decoded

NAME = "modules.json"
POOLING_FILE = "config.json"
PASSED = ("Transformer", "Normalize")
MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
NAMED = {"mean": "mean", "cls": "cls", "lasttoken": "last"}


class Module(msgspec.Struct):
    type: str
    path: str = ""


def read_pooling(folder: Path) -> str | None:
    """ "mean", "cls" or "last"; None for a folder that says nothing of vectors.

    Raises FormatError, UnsupportedError.
    """
    path = inside(folder, NAME)
    if not path.is_file():
        return None
    found = None
    for module in decoded(content_of(path), list[Module], NAME):
        kind = module.type.rpartition(".")[2]
        if kind == "Pooling":
            found = _mode(folder, module.path.rstrip("/"))
        elif kind not in PASSED:
            raise UnsupportedError(f"{NAME} has {kind[:60]!r}: not executed in what makes vectors")
    return found


def _mode(folder: Path, name: str) -> str:
    path = inside(inside(folder, name) if name else folder, POOLING_FILE, folder)
    settings = decoded(content_of(path), dict[str, object], POOLING_FILE)
    named = settings.get("pooling_mode")
    modes = [key for key, value in settings.items() if key.startswith("pooling_mode_") and value]
    found = [NAMED.get(str(named))] if named is not None else [MODES.get(key) for key in modes]
    if len(found) != 1 or found[0] is None:
        shown = ", ".join([str(named)] if named is not None else modes) or "none"
        raise UnsupportedError(
            f"{name}/{POOLING_FILE} pools by {shown[:80]}: not executed here",
            hint=f"those that are, one at a time: {', '.join(NAMED)}",
        )
    return found[0]
