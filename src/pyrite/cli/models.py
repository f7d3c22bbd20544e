"""From what a person calls a model to a file of it, fetched first where it is not here."""

from __future__ import annotations

from pathlib import Path

from pyrite.cli.progress import Progress
from pyrite.cli.terminal import Terminal

DEFAULT_MODEL = "smollm2"


def find_model(name: str, terminal: Terminal) -> Path:
    """A path, an alias, or user/repo[:quant]. Raises ModelNotFoundError, FetchError."""
    path = Path(name).expanduser()
    if name and path.exists():
        return path
    from pyrite.formats import hub

    with Progress(f"pulling {name}", terminal) as progress:
        return hub.resolve(name, progress=progress)
