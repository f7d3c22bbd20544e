"""Compares a file's tensors with those that an architecture reads, before any is used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.models.gguf_rope import FREQUENCY_FACTORS, LONG_FACTORS, SHORT_FACTORS
from pyrite.models.mismatch import faults
from pyrite.quant.formats import require_executed

SCALED = ("F8_E4M3", "F8_E5M2", "I8", "U8")  # types of safetensors, beside their scales
SHOWN = 8  # names in one message
SHOWN_BESIDE = 2  # where the cause is told besides

# Tables of rotary positions, which are part of the configuration.
COMPUTED = frozenset({FREQUENCY_FACTORS, SHORT_FACTORS, LONG_FACTORS})

Shape = tuple[int, ...]


def check_tensors(checkpoint: Checkpoint, weights: Mapping[str, Shape]) -> None:
    """TensorError with names and shapes; UnsupportedError for a type that is not executed."""
    tensors = checkpoint.tensors
    missing = {name: f"{name} {shape}" for name, shape in weights.items() if name not in tensors}
    left = {
        name: f"{name} {tensor.shape}"
        for name, tensor in tensors.items()
        if name not in weights and name not in COMPUTED
    }
    wrong = {
        name: f"{name} is {tensors[name].shape} and must be {shape}"
        for name, shape in weights.items()
        if name in tensors and tensors[name].shape != shape
    }
    if missing or left or wrong:
        raise _unfit(checkpoint, {"missing": missing, "not used": left, "wrong shape": wrong})
    for name in weights:
        _require_type(tensors[name])


def _unfit(checkpoint: Checkpoint, problems: Mapping[str, Mapping[str, str]]) -> TensorError:
    """The cause where shapes tell it, then the tensors themselves."""
    causes = faults(checkpoint, [name for found in problems.values() for name in found])
    shown = SHOWN_BESIDE if causes else SHOWN
    lists = [
        f"{title}: {_listed(found.values(), shown)}" for title, found in problems.items() if found
    ]
    hint = "the file is damaged, or is a variant that this architecture does not describe"
    if causes and checkpoint.format == "safetensors":
        hint = "config.json is of another model, or was changed: take the one of these weights"
    return TensorError(
        f"the tensors do not fit architecture {checkpoint.architecture}: "
        + "; ".join([*causes, *lists]),
        hint=hint,
    )


def _require_type(tensor: Tensor) -> None:
    if tensor.type in SCALED:
        raise UnsupportedError(
            f"tensor {tensor.name} has type {tensor.type}: not executed without its scales",
            hint="config.json says nothing of them: quantization_config is missing",
        )
    require_executed(tensor.type, tensor.name)


def _listed(names: Iterable[str], shown: int) -> str:
    found = sorted(names)
    more = f" and {len(found) - shown} more" if len(found) > shown else ""
    return ", ".join(found[:shown]) + more
