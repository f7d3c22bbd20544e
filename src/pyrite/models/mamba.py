"""Mamba and Falcon-Mamba: no attention; each layer is a selective scan between two projections.

Source: arXiv 2312.00752, 2410.05355. The mixer is also Jamba's.
"""

from __future__ import annotations

from collections.abc import Callable

from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import Norm, View
from pyrite.models import blocks, hub_config, hub_space
from pyrite.models.config import Family, ModelConfig
from pyrite.models.gguf_recurrent import PART_EPS
from pyrite.models.hub import Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    """Falcon-Mamba normalises what decides the scan, without weights."""
    assert config.space is not None
    eps = config.space.part_eps

    def norm(part: View, _: str) -> View:
        return graph.norm(part, Norm(None, eps)) if eps else part

    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    return graph.add(x, mix(graph, config, normed, index, norm))


def mix(
    graph: GraphBuilder,
    config: ModelConfig,
    x: View,
    index: int,
    norm: Callable[[View, str], View],
) -> View:
    """`norm` is applied to what decides the scan: to the step's projection ("dt"), "b" and "c"."""
    assert config.space is not None
    space, name = config.space, f"blk.{index}.ssm_"
    projected = blocks.linear(graph, x, name + "in", 2 * space.inner)
    mixed, gate = blocks.columns(projected, space.inner, space.inner)
    mixed = graph.short_conv(
        mixed, name + "conv1d.weight", space.kernel, bias=name + "conv1d.bias", activation="silu"
    )
    rank, state = space.heads, space.state
    decided = blocks.linear(graph, mixed, name + "x", rank + 2 * state)
    step, b, c = blocks.columns(decided, rank, state, state)
    step = blocks.linear(graph, norm(step, "dt"), name + "dt", space.inner)
    scanned = graph.scan(
        mixed,
        step,
        norm(b, "b"),
        norm(c, "c"),
        a=name + "a",
        d=name + "d",
        step_bias=name + "dt.bias",
    )
    return blocks.linear(graph, graph.gate(gate, scanned, "silu"), name + "out", config.width)


MAMBA = Family(name="mamba", layer=layer, has_attention=False, turns=False)


def translate(folder: Folder) -> None:
    translate_stream(folder, tied=True)
    hub_space.selective(folder)


def translate_falcon(folder: Folder) -> None:
    translate(folder)
    folder.put("ssm.dt_b_c_rms", True)
    folder.put(PART_EPS, folder.keys.number("mixer_rms_eps", 1e-12, 1.0, 1e-6))
    hub_config.ignore(folder, "use_falcon_mambapy")


def translate_stream(folder: Folder, *, tied: bool) -> None:
    """Of a model whose layers are mixers alone."""
    hub_config.stream(folder)
    folder.put("feed_forward_length", 0)
    folder.put("attention.head_count", 0)
    hub_config.norms(folder, eps=1e-5)
    hub_config.require_activation(folder, "silu")
    hub_config.head(folder, tied=tied)
    hub_config.require(folder, "rms_norm")
    hub_config.ignore(folder, *_IGNORED)


# Of the code that these models were first published with; it is what other keys say.
_IGNORED = ("d_inner", "d_model", "fused_add_norm", "n_layer", "pad_vocab_size_multiple")

TOP = {
    "backbone.embeddings": "token_embd",
    "backbone.norm_f": "output_norm",
    "lm_head": "output",
}
LAYER = {"norm": "attn_norm", **hub_space.mixer("mixer")}
ALIASES = {
    "mamba_conv_bias": "use_conv_bias",
    "mamba_d_conv": "conv_kernel",
    "mamba_d_ssm": "intermediate_size",
    "mamba_d_state": "state_size",
    "mamba_dt_rank": "time_step_rank",
    "mamba_expand": "expand",
    "rms_norm_eps": "layer_norm_epsilon",
}
DEFAULTS = {"max_position_embeddings": 1 << 20}  # nothing bounds it but the state

HUBS = {
    "mamba": hub("mamba", translate, LAYER, TOP, ALIASES, DEFAULTS),
    "falcon_mamba": hub("mamba", translate_falcon, LAYER, TOP, ALIASES, DEFAULTS),
}

FAMILIES = {MAMBA.name: MAMBA}
