"""Compares a file's tensors with those that an architecture reads, before any is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.models.gguf_rope import FREQUENCY_FACTORS, LONG_FACTORS, SHORT_FACTORS
from pyrite.quant.formats import FORMATS, require_executed

SHOWN = 8  # names in one message

# Tables of rotary positions, which are part of the configuration.
COMPUTED = frozenset({FREQUENCY_FACTORS, SHORT_FACTORS, LONG_FACTORS})

Shape = tuple[int, ...]


def check_tensors(checkpoint: Checkpoint, weights: Mapping[str, Shape]) -> None:
    """TensorError with names and shapes; UnsupportedError for a type that is not executed."""
    tensors = checkpoint.tensors
    missing = [f"{name} {shape}" for name, shape in weights.items() if name not in tensors]
    left = [
        f"{name} {tensor.shape}"
        for name, tensor in tensors.items()
        if name not in weights and name not in COMPUTED
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


def _listed(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
