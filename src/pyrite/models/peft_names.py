"""What a GGUF file calls the weights that an adapter's folder names as its model's folder does.

For architectures whose files have projections as the folder has, but for their names and, in some,
the order of rows. Others need the folder itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models import config as limits
from pyrite.models.blocks import HEAD
from pyrite.models.expert_pairs import stack
from pyrite.models.fields import Fields
from pyrite.models.fused_experts import fused_in_file
from pyrite.models.hub import Hub, gguf_name
from pyrite.models.llama import paired_rows
from pyrite.models.lora import ANOTHER, Pair, put_once
from pyrite.models.registry import hubs_of

# Files have the rows of queries and keys in pairs of neighbours that turn together.
PAIRED = frozenset(("granite", "granitemoe", "llama", "smollm3"))
RENAMED = frozenset(
    (
        *("cohere2", "command-r", "gemma", "gemma2", "gemma3", "olmo2", "olmoe", "phi3"),
        *("qwen2", "qwen2moe", "qwen3", "qwen3moe", "stablelm"),
    )
)
TURNED = (".attn_q.weight", ".attn_k.weight")


def as_file_has(base: Checkpoint, pairs: Mapping[str, Pair], version: str) -> dict[str, Pair]:
    """By the names of the GGUF file `base`, and in its order of rows. `version`: PEFT's.

    Raises UnsupportedError for an architecture whose files differ in more, FormatError where two
    names are of one weight.
    """
    if base.architecture not in PAIRED | RENAMED:
        raise UnsupportedError(
            f"it is a folder, and files of {base.architecture} have weights in other shapes",
            hint="load the model from its folder, or make a GGUF file of the adapter: "
            "pyrite convert ADAPTER adapter.gguf --base FOLDER",
        )
    rows = hubs_of(base.architecture)
    there = {HEAD, *base.tensors}
    fits = (row for row in rows if there.issuperset(_names(pairs, row)))
    named = in_file(pairs, next(fits, rows[0]), base, version)
    if base.architecture in RENAMED:
        return named
    width = _head_width(base)
    return {
        name: _turned(pair, width) if name.endswith(TURNED) else pair
        for name, pair in named.items()
    }


def names_in_folder(base: Checkpoint) -> dict[str, str]:
    """What folders call the matrices of the GGUF file `base` -> what the file does."""
    keys = Fields(base.metadata, prefix=f"{base.architecture}.")
    layers = keys.integer("block_count", 1, limits.MAX_LAYERS)
    found = {}
    for row in hubs_of(base.architecture):
        modules = [*row.top]
        for layer in range(layers):
            modules += [f"model.layers.{layer}.{module}" for module in row.layer]
        for module in modules:
            weight = f"{module}.weight"
            tensor = base.tensors.get(gguf_name(weight, row)[0])
            if tensor is not None and len(tensor.shape) == 2:
                found[weight] = tensor.name
    return found


def _names(pairs: Mapping[str, Pair], row: Hub) -> Iterator[str]:
    """GGUF's, but of stacks, which are found by their layers."""
    return (gguf_name(weight, row)[0] for weight, pair in pairs.items() if len(pair.shape) == 2)


def in_file(pairs: Mapping[str, Pair], row: Hub, file: Checkpoint, version: str) -> dict[str, Pair]:
    """By GGUF's names; of experts as stacks of as many as the file has.

    Raises FormatError where two names are of one weight, TensorError for experts that it has not.
    """
    fused = {weight: pair for weight, pair in pairs.items() if len(pair.shape) == 3}
    found = fused_in_file(fused, file, version)
    experts: dict[str, dict[int, Pair]] = defaultdict(dict)
    for weight, pair in pairs.items():
        if weight in fused:
            continue
        name, expert = gguf_name(weight, row)
        if expert is None:
            put_once(found, name, pair)
        elif len(file.tensors[name].shape if name in file.tensors else ()) != 3:
            raise TensorError(f"it is for {weight}, which {file.path.name} has not", hint=ANOTHER)
        else:
            put_once(experts[name], expert, pair)
    for name, parts in experts.items():
        put_once(found, name, stack(name, parts, file.tensors[name].shape[0]))
    return found


def _turned(pair: Pair, width: int) -> Pair:
    return replace(pair, up=paired_rows(pair.up, width))


def _head_width(base: Checkpoint) -> int:
    keys = Fields(base.metadata, prefix=f"{base.architecture}.")
    heads = keys.integer("attention.head_count", 1, limits.MAX_HEADS)
    default = keys.integer("embedding_length", 1, limits.MAX_WIDTH) // heads
    return keys.integer("attention.key_length", 1, limits.MAX_HEAD_WIDTH, default)
