"""What `doctor` found of a model, kept in the cache by the model's content, for `show` to tell.

A file that was changed has no verdict. What a finding means is unknown here.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyrite import __version__
from pyrite.backends.packing import fingerprint
from pyrite.formats.checkpoint import Checkpoint

FOLDER = "verdicts"


def keep(checkpoint: Checkpoint, cache: Path, findings: Sequence[Mapping[str, str]]) -> None:
    """A cache that cannot be written keeps nothing: the findings were told already."""
    path = _path(checkpoint, cache)
    told = {
        "version": __version__,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "findings": list(findings),
    }
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told, indent=1))


def verdict(checkpoint: Checkpoint, cache: Path) -> str | None:
    """One line; None where the model was not looked at."""
    try:
        told = json.loads(_path(checkpoint, cache).read_text())
        return _line(told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _line(told: Mapping[str, Any]) -> str:
    findings = told["findings"]
    faults = [one for one in findings if one["state"] == "fault"]
    when = f"{told['date']}, version {told['version']}"
    if faults:
        names = ", ".join(str(one["name"]) for one in faults)
        return f"{len(faults)} of {len(findings)} checks found a fault ({names}); {when}"
    skipped = sum(one["state"] == "skipped" for one in findings)
    rest = f", {skipped} could not be made" if skipped else ""
    return f"{len(findings) - skipped} checks found no fault{rest}; {when}"


def _path(checkpoint: Checkpoint, cache: Path) -> Path:
    digest = fingerprint(list(checkpoint.tensors.values()), checkpoint.files)
    return cache / FOLDER / f"{digest.hex()[:32]}.json"
