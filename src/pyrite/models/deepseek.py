"""DeepSeek V1, V2 and V3, and GLM 4.7 Flash: mixtures; from V2 on attention keeps keys and values
compressed.

All have experts that every token passes beside those that a router chooses; V1's layers are
Llama's.

In latent attention a token's keys and values of all heads are products of one latent row, so that
row is what is kept, once, with the columns of the key that turn: it is the key, and its first
columns are the value. A query is multiplied into the latent's space instead, and the mixed latent
rows into values (`attn_k_b` and `attn_v_b`, a matrix for each head).

Source: arXiv 2401.06066, 2405.04434, 2412.19437.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, llama
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import EXPERTS, PRE_NORM, Folder, hub
from pyrite.models.hub_rope import rope
from pyrite.quant.formats import FLOATS_8


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    x = graph.add(x, attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, f"blk.{index}.ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


def attention(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name, own, latent = f"blk.{index}.attn_", config.layers[index], config.latent
    assert latent is not None
    assert own.rope is not None
    rank, turned, plain = latent.key_rank, latent.rope_width, latent.plain_width
    query = _query(graph, config, x, name, own.heads * (plain + turned))
    query = graph.rotate(query, plain + turned, own.rope, start=plain)
    query = graph.head_linear(
        query, name + "k_b.weight", heads=own.heads, inputs=plain, width=rank, carried=turned
    )
    kept = blocks.linear(graph, x, name + "kv_a_mqa", rank + turned)
    row = blocks.norm(graph, config, View(kept.value, 0, rank), name + "kv_a_norm")
    key = graph.concat(row, graph.rotate(View(kept.value, rank, turned), turned, own.rope))
    mixed = blocks.mix(graph, config, query, key, None, index)
    value = graph.head_linear(
        mixed, name + "v_b.weight", heads=own.heads, inputs=rank, width=latent.value_width
    )
    return blocks.linear(graph, value, name + "output", config.width)


def _query(graph: GraphBuilder, config: ModelConfig, x: View, name: str, width: int) -> View:
    """Of all heads: in one product, or in two with a norm between them."""
    assert config.latent is not None
    rank = config.latent.query_rank
    if rank == 0:
        return blocks.linear(graph, x, name + "q", width)
    short = blocks.linear(graph, x, name + "q_a", rank)
    short = blocks.norm(graph, config, short, name + "q_a_norm")
    return blocks.linear(graph, short, name + "q_b", width)


def arrange(tensors: Tensors) -> None:
    """Old files have both matrices of all heads in one, `attn_kv_b`."""
    for name in tensors.layers():
        if (both := tensors.get(name + "attn_kv_b.weight")) is not None:
            tensors.take(both.name)
            split_heads(tensors, name, both, _count_heads(tensors, name, both))


def _count_heads(tensors: Tensors, name: str, both: Tensor) -> int:
    """As the sizes of the other tensors tell: columns that turn, of all heads and of one."""
    query = tensors.get(name + "attn_q_b.weight") or tensors[name + "attn_q.weight"]
    values = tensors[name + "attn_output.weight"].shape[-1]
    turned = tensors[name + "attn_kv_a_mqa.weight"].shape[0] - both.shape[-1]
    of_all = query.shape[0] - (both.shape[0] - values)
    if turned <= 0 or of_all <= 0 or of_all % turned:
        raise TensorError(f"{both.name} is {both.shape}: the other tensors do not fit it")
    return of_all // turned


def split_heads(tensors: Tensors, name: str, both: Tensor, heads: int) -> None:
    """Rows of a head: those that make its keys, then those that make its values."""
    values = tensors[name + "attn_output.weight"].shape[-1] // heads
    rows = both.shape[0] // heads
    if len(both.shape) != 2 or both.shape[0] % heads or not 0 < values < rows:
        raise TensorError(
            f"{both.name} is {both.shape}: {heads} heads of {values} values need more"
        )
    stack = derived.reshaped(both, (heads, rows, both.shape[-1]))
    keys = derived.rows_of_each(stack, name + "attn_k_b.weight", 0, rows - values)
    if keys.type not in (*derived.ITEMS, *FLOATS_8):
        keys = derived.as_float32(keys)  # values of blocks cannot be transposed
    tensors.put(keys.name, derived.transposed(keys))
    value_rows = derived.rows_of_each(stack, name + "attn_v_b.weight", rows - values, values)
    tensors.put(value_rows.name, value_rows)


DEEPSEEK2 = Family(
    name="deepseek2",
    layer=layer,
    rope_layout="pairs",
    routing=Routing(1, bias="exp_probs_b.bias", is_normalized=False, eps=1e-20),
    arrange=arrange,
)
DEEPSEEK = replace(llama.LLAMA, name="deepseek", routing=Routing(1, is_normalized=False))

GUESSING = (".eh_proj.", ".enorm.", ".hnorm.", ".shared_head.")  # in layers that guess alone

# How `topk_method` makes groups count: not at all, as their best expert, as their two best.
METHODS = {
    "greedy": ("softmax", False),
    "group_limited_greedy": ("softmax", True),
    "noaux_tc": ("sigmoid", True),
}
GATING = {"softmax": 1, "sigmoid": 2}


def translate(folder: Folder) -> None:
    """V1: no latent attention."""
    llama.translate(folder)
    experts(folder)
    groups(folder, "greedy", "softmax")


def translate_v2(folder: Folder) -> None:
    _translate_latent(folder, method="greedy", scoring="softmax")
    if folder.stated("expert_weights_norm"):
        raise UnsupportedError("norm_topk_prob = true is not executed in deepseek_v2")


def translate_v3(folder: Folder) -> None:
    _translate_latent(folder, method="noaux_tc", scoring="sigmoid")


def _translate_latent(folder: Folder, method: str, scoring: str) -> None:
    hub_config.sizes(folder)
    hub_config.norms(folder)
    _latent(folder)
    hub_config.require_activation(folder, "silu")
    hub_config.head(folder)
    hub_config.biases(folder, feed_forward="")
    if not folder.keys.boolean("rope_interleave", True):
        raise UnsupportedError("rope_interleave = false: not executed here")
    drop_guessing_layers(folder)
    experts(folder)
    groups(folder, method, scoring)
    for name in folder.tensors.layers():
        if (both := folder.tensors.get(name + "attn_kv_b.weight")) is not None:
            folder.tensors.take(both.name)
            split_heads(folder.tensors, name, both, folder.stated("attention.head_count"))


def _latent(folder: Folder) -> None:
    keys = folder.keys
    heads = keys.integer("num_attention_heads", 1, limits.MAX_HEADS)
    keys.integer("num_key_value_heads", heads, heads, heads)
    rank = keys.integer("kv_lora_rank", 1, limits.MAX_HEAD_WIDTH)
    turned = keys.integer("qk_rope_head_dim", 2, limits.MAX_HEAD_WIDTH)
    plain = keys.integer("qk_nope_head_dim", 1, limits.MAX_HEAD_WIDTH)
    for key, width in (("head_dim", turned), ("qk_head_dim", plain + turned)):
        keys.integer(key, width, width, width)  # newer files repeat what follows from the others
    folder.put("attention.head_count", heads, of="num_attention_heads")
    folder.put("attention.head_count_kv", 1)
    if query_rank := keys.integer("q_lora_rank", 0, limits.MAX_WIDTH, 0):
        folder.put("attention.q_lora_rank", query_rank)
    folder.put("attention.kv_lora_rank", rank, of="kv_lora_rank")
    folder.put("attention.key_length", rank + turned, of="kv_lora_rank")
    folder.put("attention.value_length", rank, of="kv_lora_rank")
    folder.put("attention.key_length_mla", plain + turned, of="qk_nope_head_dim")
    width = keys.integer("v_head_dim", 1, limits.MAX_HEAD_WIDTH)
    folder.put("attention.value_length_mla", width)
    rope(folder, width=turned)
    folder.put("rope.dimension_count", turned, of="qk_rope_head_dim")


def experts(folder: Folder) -> None:
    keys = folder.keys
    hub_config.experts(folder, count="n_routed_experts")
    leading = keys.integer("first_k_dense_replace", 0, folder.num_layers, 0)
    kinds = hub_config.layer_types(folder, ("dense", "sparse"), "mlp_layer_types")
    if kinds is not None:
        leading = kinds.count("dense")
    if kinds is None or "dense" not in kinds[leading:]:
        folder.put("leading_dense_block_count", leading)
    hub_config.told_mixtures(folder, _mixtures(folder, leading, kinds))
    keys.integer("moe_layer_freq", 1, 1, 1)
    shared = keys.integer("n_shared_experts", 0, limits.MAX_EXPERTS, 0)
    folder.put("expert_shared_count", shared)
    width = shared * folder.stated("expert_feed_forward_length")
    folder.put("expert_shared_feed_forward_length", width)
    folder.put("expert_weights_scale", keys.number("routed_scaling_factor", 1e-6, 1e6, 1.0))


def _mixtures(folder: Folder, leading: int, kinds: tuple[str, ...] | None) -> Container[int]:
    """The layers with experts: as they are listed, or all after the first ones."""
    if kinds is None:
        return range(leading, folder.num_layers)
    return [index for index, kind in enumerate(kinds) if kind == "sparse"]


def groups(folder: Folder, method: str, scoring: str) -> None:
    keys = folder.keys
    method = keys.text("topk_method", method)
    scoring = keys.text("scoring_func", scoring)
    wanted, has_groups = METHODS.get(method, ("", False))
    if scoring != wanted:
        known = ", ".join(f"{name} of {shares}" for name, (shares, _) in METHODS.items())
        raise UnsupportedError(
            f"topk_method = {method[:60]!r}, scoring_func = {scoring[:60]!r}: not executed here",
            hint=f"those that are: {known}",
        )
    folder.put("expert_gating_func", GATING[scoring])
    count = folder.stated("expert_count")
    groups = keys.integer("n_group", 1, count, 1)
    used = keys.integer("topk_group", 1, groups, 1)
    if has_groups:
        folder.put("expert_group_count", groups, of="n_group")
        folder.put("expert_group_used_count", used, of="topk_group")


def drop_guessing_layers(folder: Folder) -> None:
    """Layers that guess tokens ahead come after the model's own, and are not executed. FormatError
    for one that guesses none: it would be lost."""
    count = folder.keys.integer("num_nextn_predict_layers", 0, limits.MAX_LAYERS, 0)
    for index in range(folder.num_layers, folder.num_layers + count):
        places = (f"blk.{index}.", f"model.layers.{index}.")
        found = [name for name in folder.tensors.all if name.startswith(places)]
        if found and not any(part in name for part in GUESSING for name in found):
            raise FormatError(
                f"num_hidden_layers = {folder.num_layers} and num_nextn_predict_layers = {count}:"
                f" layer {index} guesses no token ahead"
            )
        for name in found:
            folder.tensors.take(name)


_ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
}
SHARED = {
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
}
_LAYER = PRE_NORM | EXPERTS | SHARED

_V3 = {  # where config.json says nothing of them
    "n_group": 8,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
    "topk_group": 4,
}
_GLM = {"first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 1.8}

HUBS = {
    "deepseek": hub("deepseek", translate, _LAYER),
    "deepseek_v2": hub("deepseek2", translate_v2, _LAYER | _ATTENTION),
    "deepseek_v3": hub("deepseek2", translate_v3, _LAYER | _ATTENTION, defaults=_V3),
    "glm4_moe_lite": hub("deepseek2", translate_v3, _LAYER | _ATTENTION, defaults=_GLM),
    "kimi_k2": hub("deepseek2", translate_v3, _LAYER | _ATTENTION),
}

FAMILIES = {family.name: family for family in (DEEPSEEK, DEEPSEEK2)}
