"""From an opened file to the plan of its model; the table of architectures.

Loading is total: every tensor of the file is used exactly once, with the shape that the
architecture needs and a type that is executed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from pyrite.errors import UnsupportedError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.eliminate import eliminate
from pyrite.graph.fuse import PASSES
from pyrite.graph.ops import Graph
from pyrite.graph.plan import Plan
from pyrite.models import blocks
from pyrite.models.config import Family, ModelConfig
from pyrite.models.gemma import GEMMA, GEMMA2, GEMMA3
from pyrite.models.gguf_config import read_gguf_config
from pyrite.models.llama import LLAMA
from pyrite.models.qwen import QWEN2
from pyrite.models.tensors import check_tensors

# What a plan gives for each wanted row: logits, or the state after the last norm, without the head.
Result = Literal["logits", "hidden"]

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "qwen2": QWEN2,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3": GEMMA3,
    "gemma3_text": GEMMA3,  # config.json's name for it
}


def build_plan(
    checkpoint: Checkpoint,
    passes: Sequence[Callable[[Graph], Graph]] = PASSES,
    result: Result = "logits",
) -> Plan:
    """Raises UnsupportedError, FormatError, TensorError. Reads no weights."""
    config = read_config(checkpoint)
    builder = GraphBuilder()
    graph = build_graph(config, builder, result)
    check_tensors(checkpoint, builder.weights, tied=config.tied)
    return compile_plan(
        graph,
        architecture=checkpoint.architecture,
        context_length=config.context_length,
        vocabulary=config.vocabulary,
        passes=passes,
    )


def read_config(checkpoint: Checkpoint) -> ModelConfig:
    family = find_family(checkpoint.architecture)
    if checkpoint.format == "gguf":
        return read_gguf_config(checkpoint, family)
    from pyrite.models.hub_config import read_hub_config

    return read_hub_config(checkpoint, family)


def build_graph(config: ModelConfig, builder: GraphBuilder, result: Result = "logits") -> Graph:
    """The model as written: no pass has touched it. `builder` keeps the weights it reads."""
    layer = find_family(config.architecture).layer
    x = blocks.embed(builder, config)
    for index in range(len(config.layers)):
        x = layer(builder, config, x, index)
    hidden = blocks.last_norm(builder, config, x)
    logits = blocks.head(
        builder, config, hidden
    )  # always: the file's tensors are all accounted for
    return builder.finish(logits) if result == "logits" else eliminate(builder.finish(hidden))


def find_family(architecture: str) -> Family:
    if architecture in FAMILIES:
        return FAMILIES[architecture]
    import difflib

    near = difflib.get_close_matches(architecture, FAMILIES, n=1, cutoff=0.0)[0]
    raise UnsupportedError(
        f"architecture {architecture[:60]!r} is not known here",
        hint=f"the nearest that is: {near}; all: {', '.join(FAMILIES)}",
    )
