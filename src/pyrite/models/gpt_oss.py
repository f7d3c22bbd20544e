"""GPT-OSS: experts with biases behind a clamped SwiGLU, sinks, and a window in every other layer.

A folder has gate and up of an expert in one matrix, row by row in turn, either as numbers (where
the matrix is transposed) or as MXFP4.

Source: arXiv 2508.10925 and the published code and weights.
"""

from __future__ import annotations

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.mxfp4 import flat, repacked
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import SWIGLU_LIMIT, SWIGLU_SLOPE, View
from pyrite.models import blocks, hub_config
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    mixed = blocks.attention(graph, config, normed, index, sinks=name + "attn_sinks.weight")
    x = graph.add(x, mixed)
    normed = blocks.norm(graph, config, x, name + "post_attention_norm")
    return graph.add(x, blocks.experts(graph, config, normed, index, bias=True))


GPT_OSS = Family(
    name="gpt-oss",
    layer=layer,
    activation="clamped_swiglu",
    truncates_yarn=False,
    theta=150000.0,
    window_pattern=2,
    query_bias=True,
    routing=Routing(1),
)


def translate(folder: Folder) -> None:
    keys = folder.keys
    if not folder.keys.get("rope_scaling") and not folder.keys.get("rope_parameters"):
        raise FormatError("rope_scaling is missing: positions of gpt-oss are scaled")
    hub_config.decoder(folder, eps=1e-5)
    hub_config.windows(folder, GPT_OSS.window_pattern, default=128)
    hub_config.experts(folder, count="num_local_experts", width=None, normalized=None)
    for key, wanted in (("swiglu_limit", SWIGLU_LIMIT), ("swiglu_alpha", SWIGLU_SLOPE)):
        found = keys.number(key, 0.0, 1e6, wanted)
        if found != wanted:
            raise UnsupportedError(f"{key} = {found:g}: only {wanted:g} is executed here")
    hub_config.biases(folder, feed_forward="", default=True)
    used = folder.stated("expert_used_count")
    keys.integer("experts_per_token", used, used, used)
    keys.integer("initial_context_length", 1, limits.MAX_CONTEXT, 1)  # rope_scaling has it too
    for name in folder.tensors.layers():
        _translate_experts(folder, name)


def _translate_experts(folder: Folder, layer: str) -> None:
    tensors = folder.tensors
    for part, names in (("both", ("gate", "up")), ("down", ("down",))):
        codes = _taken(tensors, f"{layer}{part}.blocks")
        if codes is None:
            tensors.change(f"{layer}{part}.weight", derived.transposed)
            _in_turn(tensors, layer, part, names, "weight")
            continue
        codes, scales = flat(codes), tensors.take(f"{layer}{part}.scales")
        for index, name in enumerate(names):
            pair = (_every(one, index, len(names)) for one in (codes, scales))
            tensors.put(f"{layer}ffn_{name}_exps.weight", repacked(*pair))
    _in_turn(tensors, layer, "both", ("gate", "up"), "bias")


def _in_turn(tensors: Tensors, layer: str, part: str, names: tuple[str, ...], kind: str) -> None:
    """One tensor for each name, whose outputs lie in turn."""
    whole = _taken(tensors, f"{layer}{part}.{kind}")
    if whole is None:
        return
    for index, name in enumerate(names):
        tensors.put(f"{layer}ffn_{name}_exps.{kind}", _every(whole, index, len(names)))


def _taken(tensors: Tensors, name: str) -> Tensor | None:
    return tensors.take(name) if name in tensors else None


def _every(tensor: Tensor, first: int, step: int) -> Tensor:
    """Outputs `first`, `first + step`, ... of each expert. (experts, outputs[, inputs])"""
    outputs = tensor.shape[1] if len(tensor.shape) in (2, 3) else 1
    if outputs % step:
        raise TensorError(f"{tensor.name} is {tensor.shape}: must hold as many of gate as of up")
    if step == 1:
        return tensor
    if len(tensor.shape) == 2:
        return derived.every_column(tensor, first, step)
    return derived.rows_of_each(tensor, tensor.name, first, outputs // step, step)


_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "self_attn.sinks": "attn_sinks.weight",
    "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_up_proj": "both.weight",
    "mlp.experts.gate_up_proj_bias": "both.bias",
    "mlp.experts.gate_up_proj_blocks": "both.blocks",
    "mlp.experts.gate_up_proj_scales": "both.scales",
    "mlp.experts.down_proj": "down.weight",
    "mlp.experts.down_proj_bias": "ffn_down_exps.bias",
    "mlp.experts.down_proj_blocks": "down.blocks",
    "mlp.experts.down_proj_scales": "down.scales",
}

HUBS = {
    "gpt_oss": hub("gpt-oss", translate, ATTENTION | _LAYER, defaults={"rope_theta": GPT_OSS.theta})
}

FAMILIES = {family.name: family for family in (GPT_OSS,)}
