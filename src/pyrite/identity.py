"""What the bytes of a page depend on besides its tokens, as one text.

The weights, what the plan does with them, and the code that does it, down to the instruction set:
pages that another process computed are good only where all of these are the same. Numbers of
threads and sizes of batches are not among them, for no number depends on these.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from pyrite import __version__, _native
from pyrite.backends.base import Runner
from pyrite.backends.packing import fingerprint
from pyrite.config import Settings
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.plan import Plan
from pyrite.text.tokenizer import Tokenizer


def identity(
    checkpoint: Checkpoint, plan: Plan, tokenizer: Tokenizer, runner: Runner, settings: Settings
) -> str:
    """Takes some milliseconds: samples of the weights are read, and all of the native module."""
    weights = fingerprint(list(checkpoint.tensors.values()), checkpoint.files)
    isa = getattr(runner, "isa", "")
    parts = (
        weights.hex(),
        _digest(repr(plan).encode()),
        tokenizer.fingerprint,
        f"{settings.backend} {isa} {settings.precision} {settings.kv_type} {runner.page_bytes}",
        f"{__version__} {_digest(Path(_native.__file__).read_bytes())}",
    )
    return "\n".join(parts)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
