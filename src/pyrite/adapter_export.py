"""An adapter that PEFT wrote as the content of a GGUF file, for Pyrite and for llama.cpp.

Only what the file says is decided here; `conversion` writes it.

Source of the keys and names: llama.cpp's documentation of adapters, and what its converter writes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from pyrite.conversion import Conversion, Target, find_recipe
from pyrite.errors import FormatError, ParameterError
from pyrite.export import FLOAT_RECIPES
from pyrite.formats.checkpoint import Checkpoint
from pyrite.formats.gguf_writer import TensorSpec
from pyrite.models.adapters import pairs_in_file
from pyrite.models.lora import Pair
from pyrite.models.registry import as_gguf
from pyrite.quant.quantize import VERSION

TYPES = {recipe: kind for kind, recipe in FLOAT_RECIPES.items()}


def plan_adapter(folder: Path, base: Checkpoint, recipe: str | None = None) -> Conversion:
    """`base`: its model, as it was opened. `recipe`: one of TYPES, by default what most matrices
    have.

    Raises ParameterError, FormatError, TensorError, UnsupportedError.
    """
    if recipe is not None and recipe.lower() not in TYPES:
        raise ParameterError("type", recipe, f"one of {', '.join(TYPES)} for an adapter")
    pairs = pairs_in_file(folder, base)
    kind = TYPES[recipe.lower()] if recipe else _natural(pairs)
    alpha = common_alpha(pairs)
    metadata = {
        "general.type": "adapter",
        "general.architecture": as_gguf(base).architecture,
        "general.name": folder.resolve().name,
        "general.file_type": np.uint32(find_recipe(FLOAT_RECIPES[kind]).file_type),
        "adapter.type": "lora",
        "adapter.lora.alpha": np.float32(alpha),
    }
    targets = tuple(_targets(pairs, kind, alpha))
    return Conversion(metadata, targets, _fingerprint(folder, targets, alpha))


def common_alpha(pairs: Mapping[str, Pair]) -> float:
    """Scale times rank, which is one number for a whole file: what most matrices have.

    Raises FormatError for an adapter that changes nothing: 0 means there that nothing is scaled.
    """
    alphas = Counter(pair.scale * pair.rank for pair in pairs.values() if pair.scale)
    if not alphas:
        raise FormatError("lora_alpha = 0: the adapter changes nothing")
    return alphas.most_common(1)[0][0]


def _targets(pairs: Mapping[str, Pair], kind: str, alpha: float) -> Iterator[Target]:
    """Where a pair has another scale than the file's, its second matrix takes what is left."""
    for weight, pair in pairs.items():
        rest = replace(pair, scale=pair.scale * pair.rank / alpha)
        for side, tensor in (("a", rest.down), ("b", rest.scaled_up())):
            yield Target(tensor, TensorSpec(f"{weight}.lora_{side}", kind, tensor.shape))


def _natural(pairs: Mapping[str, Pair]) -> str:
    kinds = Counter(pair.down.type for pair in pairs.values() if pair.down.type in FLOAT_RECIPES)
    return kinds.most_common(1)[0][0] if kinds else "F32"


def _fingerprint(folder: Path, targets: tuple[Target, ...], alpha: float) -> str:
    """Of all that the bytes of the result depend on."""
    digest = hashlib.sha256(f"{VERSION} {alpha!r}\n".encode())
    for path in sorted(folder.glob("*")):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for target in targets:
        digest.update(f"{target.spec} {target.source.type} {target.source.recipe}\n".encode())
    return digest.hexdigest()
