"""Qwen 3-Next, 3.5 and 3.6: a gated delta rule in most layers, attention with a gate in the others.

In files of Qwen 3.5 the heads of values are tiled: head h reads key head h modulo their number; in
Qwen 3-Next's, runs of heads read the same. Layers that predict further tokens are left out.

Source: arXiv 2412.06464 (the delta rule) and the published configurations.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import FormatError, TensorError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import Norm, View
from pyrite.models import blocks, hub_config, hub_space, qwen
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import EXPERTS, HEAD_NORMS, PRE_NORM, Folder, hub
from pyrite.models.hub_rope import rope

LENGTH_EPS = 1e-6  # of queries and keys
PERIOD = 4  # every so many-th layer has attention, where nothing is said


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int, *, is_tiled: bool) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    if config.layers[index].key_heads:
        mixed = blocks.attention(graph, config, normed, index, has_gate=True)
    else:
        mixed = _remember(graph, config, normed, name, is_tiled=is_tiled)
    x = graph.add(x, mixed)
    normed = blocks.norm(graph, config, x, name + "post_attention_norm")
    return graph.add(x, qwen.feed_forward(graph, config, normed, index))


def _remember(
    graph: GraphBuilder, config: ModelConfig, x: View, name: str, *, is_tiled: bool
) -> View:
    """The delta rule over convolved projections; a norm by head, and a gate."""
    assert config.space is not None
    space, ssm = config.space, name + "ssm_"
    keys = space.groups * space.state
    value_width = space.inner // space.heads
    mixed = blocks.linear(graph, x, name + "attn_qkv", 2 * keys + space.inner)
    gate = blocks.linear(graph, x, name + "attn_gate", space.inner)
    rate = blocks.linear(graph, x, ssm + "beta", space.heads)
    step = blocks.linear(graph, x, ssm + "alpha", space.heads)
    mixed = graph.short_conv(mixed, ssm + "conv1d.weight", space.kernel, activation="silu")
    query, key, value = blocks.columns(mixed, keys, keys, space.inner)
    # To unit length, with an eps beside the sum of squares; queries are scaled as in attention.
    length = Norm(None, LENGTH_EPS / space.state)
    query = graph.scale(graph.norm(query, length, space.state), 1 / space.state)
    key = graph.scale(graph.norm(key, length, space.state), space.state**-0.5)
    held = graph.delta_rule(
        query,
        key,
        value,
        step,
        rate,
        a=ssm + "a",
        step_bias=ssm + "dt.bias",
        key_heads=space.groups,
        is_tiled=is_tiled,
    )
    normed = graph.norm(held, Norm(ssm + "norm.weight", config.norm_eps), value_width)
    return blocks.linear(graph, graph.gate(gate, normed, "silu"), ssm + "out", config.width)


def arrange(tensors: Tensors) -> None:
    qwen.arrange(tensors)
    for layer in tensors.layers():
        _part_gate(tensors, layer + "attn_")
        _part_rates(tensors, layer)


def _part_gate(tensors: Tensors, name: str) -> None:
    """Of each head, the rows of its query, then those of its gate."""
    both, norm = tensors.get(name + "q.weight"), tensors.get(name + "q_norm.weight")
    if both is None or norm is None:
        return
    width = norm.shape[-1]
    if both.shape[0] % (2 * width):
        raise TensorError(f"{both.name} is {both.shape}: heads are of 2 times {width} rows")
    rows = np.arange(both.shape[0]).reshape(-1, 2, width)
    tensors.take(both.name)
    tensors.put(name + "q.weight", derived.picked_rows(both, rows[:, 0].reshape(-1)))
    tensors.put(name + "gate.weight", derived.picked_rows(both, rows[:, 1].reshape(-1)))


def _part_rates(tensors: Tensors, layer: str) -> None:
    """Qwen 3-Next's in one: of each key head, the rates of the heads that it serves, then steps."""
    both, norm = tensors.get(layer + "ssm_ba.weight"), tensors.get(layer + "ssm_norm.weight")
    mixed, gate = (tensors.get(f"{layer}attn_{part}.weight") for part in ("qkv", "gate"))
    if both is None or norm is None or mixed is None or gate is None:
        return
    # Keys are as wide as values in every model that has this tensor.
    key_heads = max(1, (mixed.shape[0] - gate.shape[0]) // (2 * norm.shape[-1]))
    if both.shape[0] % (2 * key_heads):
        raise TensorError(f"{both.name} is {both.shape}: for {key_heads} heads of keys")
    rows = np.arange(both.shape[0]).reshape(key_heads, 2, -1)
    tensors.take(both.name)
    tensors.put(layer + "ssm_beta.weight", derived.picked_rows(both, rows[:, 0].reshape(-1)))
    tensors.put(layer + "ssm_alpha.weight", derived.picked_rows(both, rows[:, 1].reshape(-1)))


QWEN35 = Family(
    name="qwen35",
    layer=partial(layer, is_tiled=True),
    head_norms="head",
    attention_period=PERIOD,
    arrange=arrange,
)
QWEN35_MOE = replace(QWEN35, name="qwen35moe", routing=Routing(1))
QWEN3_NEXT = replace(QWEN35_MOE, name="qwen3next", layer=partial(layer, is_tiled=False))


def translate(folder: Folder) -> None:
    _translate(folder)
    width = folder.keys.integer("intermediate_size", 1, limits.MAX_WIDTH)
    folder.put("feed_forward_length", width)
    _tile(folder)


def translate_moe(folder: Folder) -> None:
    _translate(folder)
    _experts(folder)
    _tile(folder)


def translate_next(folder: Folder) -> None:
    _translate(folder)
    _experts(folder)
    qwen.told_mixtures(folder)
    width = folder.keys.integer("intermediate_size", 0, limits.MAX_WIDTH, 0)
    folder.put("feed_forward_length", width)  # of layers without experts
    _part_projection(folder)


def _translate(folder: Folder) -> None:
    hub_config.stream(folder)
    hub_config.heads(folder)
    hub_config.norms(folder)
    rope(folder, is_partial=True)
    hub_config.require_activation(folder, "silu")
    hub_config.head(folder)
    hub_config.biases(folder, feed_forward="")
    hub_config.require(folder, "attn_output_gate")
    hub_config.ignore(folder, *_IGNORED)
    for name in _CENTRED:
        folder.change(name + ".weight", derived.one_more)
    folder.tensors.change("output_norm.weight", derived.one_more)
    for name in [name for name in folder.tensors.all if "mtp." in name]:
        folder.tensors.take(name)
    _put_kinds(folder)
    _put_heads(folder)


def _put_kinds(folder: Folder) -> None:
    """Which layers have a state, and which attention."""
    period = folder.keys.integer("full_attention_interval", 1, limits.MAX_LAYERS, PERIOD)
    by_period = [(index + 1) % period != 0 for index in range(folder.num_layers)]
    types = hub_config.layer_types(folder, ("linear_attention", "full_attention"))
    recurrent = by_period if types is None else [kind == "linear_attention" for kind in types]
    if recurrent == by_period:  # a list holds where both are stated
        folder.put("full_attention_interval", period)
    folder.put("attention.recurrent_layers", recurrent)


def _put_heads(folder: Folder) -> None:
    keys = folder.keys
    key_heads = keys.integer("linear_num_key_heads", 1, limits.MAX_HEADS)
    heads = keys.integer("linear_num_value_heads", 1, limits.MAX_HEADS)
    if heads % key_heads:
        raise FormatError(
            f"linear_num_value_heads = {heads} over linear_num_key_heads = {key_heads}: must be a"
            " multiple"
        )
    width = keys.integer("linear_value_head_dim", 1, limits.MAX_HEAD_WIDTH)
    folder.put("ssm.group_count", key_heads)
    folder.put("ssm.time_step_rank", heads)
    key_width = keys.integer("linear_key_head_dim", 1, limits.MAX_HEAD_WIDTH)
    folder.put("ssm.state_size", key_width)
    folder.put("ssm.inner_size", heads * width)
    taps = keys.integer("linear_conv_kernel_dim", 2, limits.MAX_KERNEL)
    folder.put("ssm.conv_kernel", taps)
    folder.change("ssm_conv1d.weight", hub_space.one_channel)
    folder.change("ssm_a", hub_space.negative)


def _experts(folder: Folder) -> None:
    hub_config.experts(folder, normalized=None)
    keys = folder.keys
    width = keys.integer("shared_expert_intermediate_size", 1, limits.MAX_WIDTH)
    folder.put("expert_shared_feed_forward_length", width)
    folder.put("expert_weights_norm", keys.boolean("norm_topk_prob", True))


def _tile(folder: Folder) -> None:
    """From runs of heads that read the same keys to heads that read them by turns; and the parts of
    positions that files of Qwen 3.5 must state."""
    if not folder.has("rope.dimension_sections"):
        pairs = folder.stated("rope.dimension_count") // 2
        third = -(-pairs // 3)
        folder.put("rope.dimension_sections", [third, third, pairs - 2 * third, 0])
    key_heads, heads = folder.stated("ssm.group_count"), folder.stated("ssm.time_step_rank")
    if heads == key_heads:
        return
    width = folder.stated("ssm.inner_size") // heads
    turns = np.arange(heads).reshape(key_heads, -1).T.reshape(-1)
    rows = _expanded(turns, width)
    keys = np.arange(2 * key_heads * folder.stated("ssm.state_size"))
    mixed = np.concatenate([keys, len(keys) + rows])
    for name, order in (
        ("attn_qkv.weight", mixed),
        ("ssm_conv1d.weight", mixed),
        ("attn_gate.weight", rows),
        ("ssm_beta.weight", turns),
        ("ssm_alpha.weight", turns),
        ("ssm_a", turns),
        ("ssm_dt.bias", turns),
    ):
        folder.change(name, partial(_picked, order=order))
    folder.change("ssm_out.weight", partial(derived.picked_columns, order=turns, width=width))


def _expanded(heads: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """The rows of heads of so many."""
    return (heads[:, None] * width + np.arange(width)).reshape(-1)


def _picked(tensor: Tensor, order: NDArray[np.int64]) -> Tensor:
    if tensor.shape[0] != len(order):
        return tensor  # its shape is refused when it is compared
    return derived.picked_rows(tensor, order)


def _part_projection(folder: Folder) -> None:
    """Of each key head its query, its key, and values and gates of the heads that it serves."""
    key_heads, key_width = folder.stated("ssm.group_count"), folder.stated("ssm.state_size")
    if folder.stated("ssm.inner_size") // folder.stated("ssm.time_step_rank") != key_width:
        raise FormatError("linear_key_head_dim and linear_value_head_dim must be the same")
    served = folder.stated("ssm.inner_size") // key_heads
    each = 2 * key_width + 2 * served
    rows = np.arange(key_heads * each).reshape(key_heads, each)
    ends = (key_width, 2 * key_width, 2 * key_width + served)
    query, key, value, gate = (part.reshape(-1) for part in np.split(rows, ends, axis=1))
    for layer in folder.tensors.layers():
        whole = folder.tensors.get(layer + "ssm_in.weight")
        if whole is None or whole.shape[0] != rows.size:
            continue
        folder.tensors.take(whole.name)
        mixed = derived.picked_rows(whole, np.concatenate([query, key, value]))
        folder.tensors.put(layer + "attn_qkv.weight", mixed)
        folder.tensors.put(layer + "attn_gate.weight", derived.picked_rows(whole, gate))


_CENTRED = ("attn_norm", "post_attention_norm", "attn_q_norm", "attn_k_norm")
# Guessing layers, images, and how a kernel computes.
_IGNORED = ("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")

_LAYER = {
    **PRE_NORM,
    **HEAD_NORMS,
    "post_attention_layernorm": "post_attention_norm",
    "linear_attn.in_proj_qkvz": "ssm_in",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.A_log": "ssm_a",
    "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}
_MOE = {
    **_LAYER,
    **EXPERTS,
    **qwen.SHARED,
    **qwen.STACKED,
}
_DEFAULTS = {
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "partial_rotary_factor": 0.25,
}
_row = partial(hub, defaults=_DEFAULTS)

HUBS = {
    "qwen3_5": _row("qwen35", translate, _LAYER, is_wrapped=True),
    "qwen3_5_text": _row("qwen35", translate, _LAYER),
    "qwen3_5_moe": _row("qwen35moe", translate_moe, _MOE, is_wrapped=True),
    "qwen3_5_moe_text": _row("qwen35moe", translate_moe, _MOE),
    "qwen3_next": _row("qwen3next", translate_next, _MOE),
}

FAMILIES = {family.name: family for family in (QWEN35, QWEN35_MOE, QWEN3_NEXT)}
