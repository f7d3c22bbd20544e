"""Compares a file's tensors with those that an architecture reads, before any is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.quant.formats import FORMATS, require_executed

SHOWN = 8  # names in one message

# A table of hub files that follows from the configuration, and one of GGUF that is part of it.
COMPUTED = {"safetensors": ".rotary_emb.inv_freq", "gguf": "rope_freqs.weight"}

Shape = tuple[int, ...]


def check_tensors(checkpoint: Checkpoint, weights: Mapping[str, Shape], *, tied: bool) -> None:
    """TensorError with names and shapes; UnsupportedError for a type that is not executed."""
    tensors = checkpoint.tensors
    missing = [f"{name} {shape}" for name, shape in weights.items() if name not in tensors]
    left = [
        f"{name} {tensor.shape}"
        for name, tensor in tensors.items()
        if name not in weights and not _is_spare(tensor, checkpoint, tied)
    ]
    wrong = [
        f"{name} is {tensors[name].shape} and must be {shape}"
        for name, shape in weights.items()
        if name in tensors and tensors[name].shape != shape
    ]
    problems = [
        f"{title}: {_listed(names)}"
        for title, names in (("missing", missing), ("not used", left), ("wrong shape", wrong))
        if names
    ]
    if problems:
        raise TensorError(
            f"the tensors do not fit architecture {checkpoint.architecture}: "
            + "; ".join(problems),
            hint="the file is damaged, or is a variant that this architecture does not describe",
        )
    for name in weights:
        _check_type(tensors[name])


def _check_type(tensor: Tensor) -> None:
    if tensor.type not in FORMATS:
        raise UnsupportedError(f"tensor {tensor.name} has type {tensor.type}: not executed here")
    require_executed(tensor.type, tensor.name)


def _is_spare(tensor: Tensor, checkpoint: Checkpoint, tied: bool) -> bool:
    """Harmless to leave unread: a computed table, or a copy of the tied embedding table."""
    if tensor.name.endswith(COMPUTED[checkpoint.format]):
        return True
    table = checkpoint.tensors.get("token_embd.weight")
    return (
        tied
        and tensor.name == "output.weight"
        and table is not None
        and (tensor.type, tensor.shape) == (table.type, table.shape)
        and bool((tensor.read() == table.read()).all())
    )


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
