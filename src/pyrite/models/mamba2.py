"""Mamba 2: a scan by heads, with one decay a head, and a norm after the gate.

Source: arXiv 2405.21060. The mixer is also Falcon-H1's.
"""

from __future__ import annotations

from pyrite.formats import derived
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import Norm, View
from pyrite.models import blocks, hub_config, hub_space, mamba
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    return graph.add(x, mix(graph, config, normed, index))


def mix(
    graph: GraphBuilder, config: ModelConfig, x: View, index: int, *, has_norm: bool = True
) -> View:
    assert config.space is not None
    space, name = config.space, f"blk.{index}.ssm_"
    shared = space.groups * space.state  # columns of b, and of c
    width = space.inner + 2 * shared
    projected = blocks.linear(graph, x, name + "in", space.inner + width + space.heads)
    gate, mixed, step = blocks.columns(projected, space.inner, width, space.heads)
    mixed = graph.short_conv(
        mixed, name + "conv1d.weight", space.kernel, bias=name + "conv1d.bias", activation="silu"
    )
    columns, b, c = blocks.columns(mixed, space.inner, shared, shared)
    scanned = graph.scan(
        columns,
        step,
        b,
        c,
        a=name + "a",
        d=name + "d",
        step_bias=name + "dt.bias",
        groups=space.groups,
        step_limits=space.step_limits,
    )
    gated = graph.gate(gate, scanned, "silu")
    if has_norm:
        norm = Norm(name + "norm.weight", config.norm_eps, is_wide=True)
        gated = graph.norm(gated, norm, space.inner // space.groups)
    return blocks.linear(graph, gated, name + "out", config.width)


def arrange(tensors: Tensors) -> None:
    """The weight of the norm is a matrix in GGUF files: a row for each group."""
    for layer in tensors.layers():
        tensors.change(layer + "ssm_norm.weight", derived.flattened)


MAMBA2 = Family(name="mamba2", layer=layer, has_attention=False, turns=False, arrange=arrange)


def translate(folder: Folder) -> None:
    """Published code reads neither `norm_before_gate` (the gate always comes first) nor
    `time_step_rank`."""
    mamba.translate_stream(folder, tied=False)
    hub_space.by_heads(folder)
    hub_config.ignore(folder, "norm_before_gate", "time_step_rank")


_ALIASES = {
    **mamba.ALIASES,
    "mamba_d_head": "head_dim",
    "mamba_n_heads": "num_heads",
    "mamba_n_groups": "n_groups",
}

HUBS = {"mamba2": hub("mamba2", translate, mamba.LAYER, mamba.TOP, _ALIASES, mamba.DEFAULTS)}

FAMILIES = {MAMBA2.name: MAMBA2}
