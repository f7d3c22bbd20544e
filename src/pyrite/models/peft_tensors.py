"""What PEFT's tensors are, by their names: the two matrices of a module, and what it saves beside.

A module's name is the model's own, without the names that PEFT puts around it. What
adapter_config.json says is unknown here.

Source: the `peft` library: the names that it saves tensors under.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from pyrite.errors import TensorError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.models.lora import MAX_RANK, Pair, paired
from pyrite.models.peft_parameters import MOST_EXPERTS

MERGE = "merge the adapter into the model with PEFT (merge_and_unload), and load that"

# The model lies below the first name, and each matrix below its module's.
BEFORE = r"(?:base_model\.model\.)?(?P<module>.+)\."
MATRIX = re.compile(BEFORE + r"lora_(?P<side>[AB])(?:\.\w+)?\.weight")
TABLE = re.compile(BEFORE + r"lora_embedding_(?P<side>[AB])(?:\.\w+)?")  # of an embedding
SAVED = re.compile(BEFORE + r"base_layer\.weight")  # the embedding, or head, itself

# What other tensors are, by a part of their names.
STRAY = {
    "lora_magnitude_vector": "a magnitude of DoRA, which is not executed here",
    "lora_B.bias": "a bias of a second matrix, which is not executed here",
    ".bias": "a bias: biases are not adapted here",
    ".weight": "a whole weight (modules_to_save, or a vocabulary that grew): not executed here",
}

Found = list[tuple[str, str, Tensor]]


def read_modules(tensors: Iterable[Tensor], has_stacks: bool = False) -> dict[str, Pair]:
    """By the modules that they adapt, without their scales yet. `has_stacks`: some are of many
    experts together.

    Raises TensorError, UnsupportedError.
    """
    matrices, tables, saved, others = Found(), Found(), dict[str, Tensor](), list[Tensor]()
    for tensor in tensors:
        if match := MATRIX.fullmatch(tensor.name):
            matrices.append((match["module"], match["side"].lower(), tensor))
        elif match := TABLE.fullmatch(tensor.name):
            tables.append((match["module"], match["side"].lower(), tensor))
        elif match := SAVED.fullmatch(tensor.name):
            saved[match["module"]] = tensor
        else:
            others.append(tensor)
    pairs = paired(matrices, most_rank=MAX_RANK * (MOST_EXPERTS if has_stacks else 1))
    pairs |= {module: _by_token(pair) for module, pair in paired(tables).items()}
    others += [tensor for module, tensor in saved.items() if module not in pairs]
    for tensor in others:
        raise _stray(tensor)
    return {module: replace(pair, saved=saved.get(module)) for module, pair in pairs.items()}


def _by_token(pair: Pair) -> Pair:
    """The first matrix has a column for each token: it becomes a row."""
    return replace(pair, down=derived.transposed(pair.down), is_table=True)


def _stray(tensor: Tensor) -> TensorError:
    kind = next((text for part, text in STRAY.items() if part in tensor.name), None)
    return TensorError(f"tensor {tensor.name} is {kind or 'no part of a LoRA adapter'}", hint=MERGE)
