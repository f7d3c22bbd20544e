"""From an opened file to the plan of its model; the tables of architectures.

Loading is total: every tensor of the file is used exactly once, with the shape that the
architecture needs and a type that is executed here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

from pyrite.errors import UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.graph.build import UP_NAME, GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.eliminate import eliminate
from pyrite.graph.fuse import PASSES
from pyrite.graph.ops import Graph
from pyrite.graph.plan import Plan
from pyrite.models import blocks
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.gguf_config import read_gguf_config
from pyrite.models.hub import Hub, translated
from pyrite.models.orders import orders_of, sorted_columns
from pyrite.models.other_kinds import refuse_other_architectures, refuse_other_kinds
from pyrite.models.predictors import without_predictors
from pyrite.models.tensors import check_tensors

# What a plan gives for each wanted row: logits, or the state after the last norm, without the head.
Result = Literal["logits", "hidden"]

# Modules of this package by the architecture's name in GGUF files, and by config.json's model_type.
# Each has FAMILIES and HUBS with these names; one is imported when its model is opened.
ARCHITECTURES = {
    "cohere2": "cohere",
    "command-r": "cohere",
    "deepseek": "deepseek",
    "deepseek2": "deepseek",
    "ernie4_5": "ernie",
    "ernie4_5-moe": "ernie",
    "exaone4": "exaone4",
    "falcon-h1": "falcon_h1",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
    "gemma4": "gemma4",
    "glm4": "glm4",
    "glm4moe": "glm4_moe",
    "gpt-oss": "gpt_oss",
    "gpt2": "gpt2",
    "granite": "granite",
    "granitehybrid": "granite_hybrid",
    "granitemoe": "granite",
    "hunyuan-dense": "hunyuan",
    "jamba": "jamba",
    "lfm2": "lfm2",
    "lfm2moe": "lfm2",
    "llama": "llama",
    "mamba": "mamba",
    "mamba2": "mamba2",
    "minimax-m2": "minimax",
    "mistral3": "llama",
    "olmo2": "olmo",
    "olmoe": "olmo",
    "phi3": "phi",
    "qwen2": "qwen",
    "qwen2moe": "qwen",
    "qwen2vl": "qwen",
    "qwen3": "qwen",
    "qwen35": "qwen_next",
    "qwen35moe": "qwen_next",
    "qwen3moe": "qwen",
    "qwen3next": "qwen_next",
    "qwen3vl": "qwen",
    "qwen3vlmoe": "qwen",
    "rwkv4": "rwkv4",
    "rwkv7": "rwkv7",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
}
MODEL_TYPES = {
    "cohere": "cohere",
    "cohere2": "cohere",
    "deepseek": "deepseek",
    "deepseek_v2": "deepseek",
    "deepseek_v3": "deepseek",
    "ernie4_5": "ernie",
    "ernie4_5_moe": "ernie",
    "exaone4": "exaone4",
    "falcon_h1": "falcon_h1",
    "falcon_mamba": "mamba",
    "gemma": "gemma",
    "gemma2": "gemma",
    "gemma3": "gemma",
    "gemma3_text": "gemma",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "glm4": "glm4",
    "glm4_moe": "glm4_moe",
    "glm4_moe_lite": "deepseek",
    "gpt2": "gpt2",
    "gpt_oss": "gpt_oss",
    "granite": "granite",
    "granitemoe": "granite",
    "granitemoehybrid": "granite_hybrid",
    "granitemoeshared": "granite",
    "hunyuan_v1_dense": "hunyuan",
    "jamba": "jamba",
    "kimi_k2": "deepseek",
    "lfm2": "lfm2",
    "lfm2_moe": "lfm2",
    "llama": "llama",
    "mamba": "mamba",
    "mamba2": "mamba2",
    "minimax_m2": "minimax",
    "ministral3": "llama",
    "mistral": "llama",
    "mistral3": "llama",
    "mixtral": "llama",
    "olmo2": "olmo",
    "olmo3": "olmo",
    "olmoe": "olmo",
    "phi3": "phi",
    "qwen2": "qwen",
    "qwen2_5_vl": "qwen",
    "qwen2_moe": "qwen",
    "qwen2_vl": "qwen",
    "qwen3": "qwen",
    "qwen3_5": "qwen_next",
    "qwen3_5_moe": "qwen_next",
    "qwen3_5_moe_text": "qwen_next",
    "qwen3_5_text": "qwen_next",
    "qwen3_moe": "qwen",
    "qwen3_next": "qwen_next",
    "qwen3_vl": "qwen",
    "qwen3_vl_moe": "qwen",
    "rwkv": "rwkv4",
    "rwkv7": "rwkv7",
    "seed_oss": "seed_oss",
    "smollm3": "smollm3",
    "stablelm": "stablelm",
}


def open_model(path: str | Path) -> Checkpoint:
    """Opens a GGUF file or a folder, with GGUF's keys and the tensors that its architecture reads.

    Raises ModelNotFoundError, FormatError, TensorError, UnsupportedError. Reads no weights.
    """
    return as_model(open_checkpoint(path))


def as_model(checkpoint: Checkpoint) -> Checkpoint:
    """The same of what is open already."""
    return arranged(as_gguf(checkpoint))


def as_gguf(checkpoint: Checkpoint) -> Checkpoint:
    """A folder as a GGUF file of the same model has it; a GGUF file as it is."""
    if checkpoint.format == "gguf":
        return checkpoint
    return translated(checkpoint, find_hub(checkpoint.architecture))


def arranged(checkpoint: Checkpoint) -> Checkpoint:
    """Tensors as the architecture's layers read them: fused ones are split, and so on."""
    refuse_other_kinds(checkpoint)
    family = find_family(checkpoint.architecture)
    checkpoint = without_predictors(checkpoint)
    if family.trim is not None:
        checkpoint = family.trim(checkpoint)
    tensors = Tensors(dict(checkpoint.tensors))
    tensors.split_fused()
    if family.arrange is not None:
        family.arrange(tensors)
    return replace(checkpoint, tensors=sorted_columns(tensors.all))


def build_plan(
    checkpoint: Checkpoint,
    passes: Sequence[Callable[[Graph], Graph]] = PASSES,
    result: Result = "logits",
    context_length: int | None = None,
) -> Plan:
    """Of what `open_model` gave. `context_length`: what it is loaded for, by default all it can.

    Raises UnsupportedError, FormatError, TensorError. Reads no weights.
    """
    config = read_config(checkpoint, context_length)
    builder = GraphBuilder(ranks_of(checkpoint.tensors), orders_of(checkpoint.tensors))
    graph = build_graph(config, builder, result)
    check_tensors(checkpoint, builder.weights)
    return compile_plan(
        graph,
        architecture=checkpoint.architecture,
        context_length=config.context_length,
        vocabulary=config.vocabulary,
        num_layers=len(config.layers),
        passes=passes,
    )


def ranks_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Of each weight that adapters change: the rank of each adapter, 0 where it does not."""
    matches = [(UP_NAME.fullmatch(name), tensor) for name, tensor in tensors.items()]
    found = [(match[1], int(match[2]), tensor.shape[-1]) for match, tensor in matches if match]
    count = 1 + max((index for _, index, _ in found), default=-1)
    ranks = {weight: [0] * count for weight, _, _ in found}
    for weight, index, rank in found:
        ranks[weight][index] = rank
    return {weight: tuple(each) for weight, each in ranks.items()}


def plan_for(checkpoint: Checkpoint, plan: Plan, context_length: int) -> Plan:
    """The plan of a model that is loaded for so many tokens: `plan`, which is for all it can, or
    another where rotary positions depend on it. Nothing else does: sizes are the same."""
    if read_config(checkpoint, context_length) == read_config(checkpoint):
        return plan
    return build_plan(checkpoint, context_length=context_length)


def read_config(checkpoint: Checkpoint, context_length: int | None = None) -> ModelConfig:
    family = find_family(checkpoint.architecture)
    return read_gguf_config(checkpoint, family, context_length)


def build_graph(config: ModelConfig, builder: GraphBuilder, result: Result = "logits") -> Graph:
    """The model as written: no pass has touched it. `builder` keeps the weights it reads."""
    family = find_family(config.architecture)
    x = (family.embed or blocks.embed)(builder, config)
    for index in range(len(config.layers)):
        x = family.layer(builder, config, x, index)
    hidden = blocks.last_norm(builder, config, x)
    logits = blocks.head(builder, config, hidden)  # always: all tensors are accounted for
    return builder.finish(logits) if result == "logits" else eliminate(builder.finish(hidden))


def find_family(architecture: str) -> Family:
    """By the name in GGUF files. Raises UnsupportedError with the nearest that is known."""
    family: Family = _module(ARCHITECTURES, architecture).FAMILIES[architecture]
    return family


def find_hub(model_type: str) -> Hub:
    """By config.json's name. Raises UnsupportedError with the nearest that is known."""
    row: Hub = _module(MODEL_TYPES, model_type).HUBS[model_type]
    return row


def hubs_of(architecture: str) -> tuple[Hub, ...]:
    """What folders become models of an architecture by its name in GGUF files."""
    rows: Mapping[str, Hub] = _module(ARCHITECTURES, architecture).HUBS
    return tuple(row for row in rows.values() if row.architecture == architecture)


def _module(table: Mapping[str, str], name: str) -> ModuleType:
    if name in table:
        return import_module(f"pyrite.models.{table[name]}")
    refuse_other_architectures(name)
    near = difflib.get_close_matches(name, table, n=1)
    nearest = f"the nearest that is: {near[0]}; " if near else ""
    raise UnsupportedError(
        f"architecture {name[:60]!r} is not known here",
        hint=f"{nearest}all: {', '.join(table)}",
    )
