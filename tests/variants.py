"""Checkpoints with changed configurations, for tests of what is understood and what is refused."""

from __future__ import annotations

from dataclasses import replace

from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.registry import as_model


def hub(golden, case: str, **changes):
    """The case's checkpoint with keys of its config.json changed; `...` takes one out."""
    checkpoint = open_checkpoint(golden / "tiny" / case)
    metadata = {**checkpoint.metadata, **changes}
    kept = {key: value for key, value in metadata.items() if value is not ...}
    return as_model(replace(checkpoint, metadata=kept))


def changed(checkpoint, **changes):
    """GGUF metadata, as of a file, with keys of the architecture changed: `__` stands for a dot."""
    prefix = checkpoint.architecture
    new = {f"{prefix}.{key.replace('__', '.')}": value for key, value in changes.items()}
    metadata = {**checkpoint.metadata, **new}
    kept = {key: value for key, value in metadata.items() if value is not ...}
    return replace(checkpoint, metadata=kept, origins={})
