"""RWKV-7: each head keeps a matrix that forgets, removes and takes in by each token.

Folders hold the tensors of the published .pth files or flash-linear-attention's; its configuration
has the same sizes under other names.

Source: arXiv 2503.14456.
"""

from __future__ import annotations

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import Activation, Norm, View
from pyrite.models import blocks, hub_config, rwkv4
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.gguf_recurrent import HEAD_NORM_EPS
from pyrite.models.hub import Folder, hub

LENGTH_EPS = 1e-12  # of a head's removed key
MIXED = "rwkvag"  # what reads a mix of a token and the one before it, in GGUF's order
FUSED = "time_mix_lerp_fused.weight"


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    x = graph.add(x, _mix_tokens(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "attn_norm_2")
    return graph.add(x, _mix_columns(graph, config, normed, index))


def _mix_tokens(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    assert config.wkv is not None
    wkv, width, name = config.wkv, config.width, f"blk.{index}.time_mix_"
    before = graph.shift_tokens(x)
    mixes = {kind: graph.lerp(x, before, f"{name}lerp_{kind}.weight") for kind in MIXED}
    receptance = blocks.linear(graph, mixes["r"], name + "receptance", width)
    key = blocks.linear(graph, mixes["k"], name + "key", width)
    value = blocks.linear(graph, mixes["v"], name + "value", width)
    decay = _narrow(graph, mixes["w"], name + "w", wkv.decay_rank, "tanh")
    rate = _narrow(graph, mixes["a"], name + "a", wkv.rate_rank, "identity")
    rate = graph.activate(rate, "sigmoid")
    if index == 0:
        graph.kept["value"] = value
    else:
        share = _narrow(graph, mixes["v"], name + "v", wkv.value_rank, "identity")
        value = graph.blend(value, graph.kept["value"], graph.activate(share, "sigmoid"))
    removal = graph.affine(key, name + "k_k.weight")
    removal = graph.norm(removal, Norm(None, LENGTH_EPS, "l2"), wkv.head_width)
    key = graph.lerp(key, graph.gate(rate, key, "identity"), name + "k_a.weight")
    mixed = graph.wkv7(receptance, decay, key, value, removal, rate, wkv.head_width)
    norm = Norm(name + "ln.weight", wkv.norm_eps, "layer", name + "ln.bias", is_wide=True)
    mixed = graph.norm(mixed, norm, wkv.head_width)
    own = graph.head_dot(receptance, key, value, name + "r_k.weight", wkv.head_width)
    gate = _narrow(graph, mixes["g"], name + "g", wkv.gate_rank, "sigmoid", bias=False)
    gated = graph.gate(gate, graph.add(mixed, own), "identity")
    return blocks.linear(graph, gated, name + "output", width)


def _narrow(
    graph: GraphBuilder,
    x: View,
    name: str,
    rank: int,
    activation: Activation,
    *,
    bias: bool = True,
) -> View:
    """Two products with few columns between them."""
    inner = graph.linear(x, name + "1.weight", rank)
    if activation != "identity":
        inner = graph.activate(inner, activation)
    return graph.linear(inner, name + "2.weight", x.width, name + "0.weight" if bias else None)


def _mix_columns(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    name, width = f"blk.{index}.channel_mix_", config.layers[index].feed_forward
    key = graph.lerp(x, graph.shift_tokens(x), name + "lerp_k.weight")
    key = graph.activate(blocks.linear(graph, key, name + "key", width), "relu_squared")
    return blocks.linear(graph, key, name + "value", config.width)


def arrange(tensors: Tensors) -> None:
    """The first layer's `v` tensors are fillers; the mixes of all projections are one tensor."""
    for part in "012":
        tensors.all.pop(f"blk.0.time_mix_v{part}.weight", None)
    for layer in tensors.layers():
        parts = [f"{layer}time_mix_lerp_{kind}.weight" for kind in MIXED]
        tensors.split(layer + FUSED, *((part, 1) for part in parts))
        for part in parts:
            tensors.change(part, derived.flattened)


RWKV7 = Family(
    name="rwkv7",
    layer=layer,
    norm="layer",
    norm_bias=True,
    has_attention=False,
    turns=False,
    arrange=arrange,
    embed=rwkv4.embed,
)


def translate(folder: Folder) -> None:
    hub_config.sizes(folder, widening=4)
    folder.put("attention.head_count", 0)
    hub_config.require_activation(folder, "relu_squared")
    hub_config.head(folder)
    _put_sizes(folder)
    _put_norms(folder)
    for kind in ("weight", "bias"):
        folder.tensors.rename(f"blk.0.token_embd_norm.{kind}", f"token_embd_norm.{kind}")
    for name in _VECTORS:
        folder.change(name + ".weight", derived.flattened)
    head_width = folder.stated("wkv.head_size")
    folder.change("time_mix_r_k.weight", lambda tensor: _by_heads(tensor, head_width))
    width = folder.stated("embedding_length")
    for name in "wavg":
        folder.change(f"time_mix_{name}1.weight", lambda tensor: _turned(tensor, 1, width))
        folder.change(f"time_mix_{name}2.weight", lambda tensor: _turned(tensor, 0, width))
    for layer in folder.tensors.layers():
        _fuse(folder.tensors, layer)
    _fill(folder.tensors)


def _by_heads(tensor: Tensor, width: int) -> Tensor:
    """Rows of heads as one vector. Another shape is refused when it is compared."""
    return derived.flattened(tensor) if tensor.shape[-1] == width else tensor


def _put_sizes(folder: Folder) -> None:
    keys, width = folder.keys, folder.stated("embedding_length")
    if keys.text("rwkv_version", "x070") != "x070":
        raise UnsupportedError(f"rwkv_version = {keys.get('rwkv_version')!r}: executed is x070")
    named = keys.integer("head_dim", 1, limits.MAX_HEAD_WIDTH, 64)
    head_width = keys.integer("head_size", 1, limits.MAX_HEAD_WIDTH, named)
    heads = keys.integer("num_heads", 1, limits.MAX_HEADS, max(1, width // head_width))
    if heads * head_width != width:
        raise FormatError(f"{heads} heads of {head_width} columns: the stream has {width}")
    folder.put("wkv.head_size", head_width)
    for key, name in (
        ("decay_low_rank_dim", "decay"),
        ("a_low_rank_dim", "iclr"),
        ("v_low_rank_dim", "value_residual_mix"),
        ("gate_low_rank_dim", "gate"),
    ):
        folder.put(f"attention.{name}_lora_rank", keys.integer(key, 1, limits.MAX_WIDTH))


def _put_norms(folder: Folder) -> None:
    """By default a head's eps is as many times the others' as a head of 64 has columns."""
    keys = folder.keys
    eps = keys.number("layer_norm_eps", 0.0, 1.0, keys.number("norm_eps", 0.0, 1.0, 1e-5))
    folder.put("attention.layer_norm_epsilon", eps)
    default = eps * folder.stated("wkv.head_size")
    own = keys.number("group_norm_eps", 0.0, 1.0, default)
    if abs(own - HEAD_NORM_EPS) > 1e-9:
        folder.put("attention.group_norm_epsilon", own)
    hub_config.require(folder, "norm_bias", "norm_first")
    hub_config.ignore(folder, *_IGNORED)


def _turned(tensor: Tensor, axis: int, width: int) -> Tensor:
    """The axis that has the stream's width is where GGUF has it: .pth files have x @ w."""
    if len(tensor.shape) != 2 or tensor.shape[axis] == width:
        return tensor
    return derived.transposed(tensor)


def _fuse(tensors: Tensors, layer: str) -> None:
    if layer + FUSED in tensors:
        return
    names = [f"{layer}time_mix_lerp_{kind}.weight" for kind in MIXED]
    missing = [name for name in names if name not in tensors]
    if missing:
        raise TensorError(f"missing: {', '.join(missing)}")
    parts = [tensors.take(name) for name in names]
    rows = [derived.reshaped(part, (1, 1, part.shape[-1])) for part in parts]
    tensors.put(layer + FUSED, derived.stacked(layer + FUSED, rows))


def _fill(tensors: Tensors) -> None:
    """GGUF files have `v` in the first layer too, where nothing reads it: as converters do, `a`."""
    for part in "012":
        tensors.all.pop(f"blk.0.time_mix_v{part}.weight", None)
        if (own := tensors.get(f"blk.0.time_mix_a{part}.weight")) is not None:
            tensors.put(f"blk.0.time_mix_v{part}.weight", own)


_VECTORS = (
    *(f"time_mix_{name}" for name in ("w0", "a0", "v0", "k_k", "k_a")),
    *(f"time_mix_lerp_{kind}" for kind in MIXED),
    "channel_mix_lerp_k",
)

_IGNORED = (  # how flash-linear-attention's kernels work; sizes that follow from others
    "attn_mode",
    "fuse_norm",
    "fuse_cross_entropy",
    "fuse_linear_cross_entropy",
    "hidden_ratio",
    "use_l2warp",
    "value_dim",
)

_TOP = {
    "emb": "token_embd",
    "ln_out": "output_norm",
    "head": "output",
    "model.embeddings": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_MIXER = {
    **{f"att.{kind}{part}": f"time_mix_{kind}{part}.weight" for kind in "wav" for part in "012"},
    **{f"att.g{part}": f"time_mix_g{part}.weight" for part in "12"},
    **{f"att.x_{kind}": f"time_mix_lerp_{kind}.weight" for kind in MIXED},
    **{f"att.{name}": f"time_mix_{name}.weight" for name in ("k_k", "k_a", "r_k")},
    "att.receptance": "time_mix_receptance",
    "att.key": "time_mix_key",
    "att.value": "time_mix_value",
    "att.output": "time_mix_output",
    "att.ln_x": "time_mix_ln",
}
_FLASH = {
    **{
        f"attn.{kind}_lora.lora.{part}": f"time_mix_{kind}{number}.weight"
        for kind in "wavg"
        for part, number in (("0.weight", 1), ("2.weight", 2), ("2.bias", 0))
    },
    **{f"attn.x_{kind}": f"time_mix_lerp_{kind}.weight" for kind in MIXED},
    **{f"attn.{name}": f"time_mix_{name}.weight" for name in ("k_k", "k_a", "r_k")},
    "attn.r_proj": "time_mix_receptance",
    "attn.k_proj": "time_mix_key",
    "attn.v_proj": "time_mix_value",
    "attn.o_proj": "time_mix_output",
    "attn.g_norm": "time_mix_ln",
    "pre_norm": "token_embd_norm",
    "attn_norm": "attn_norm",
    "ffn_norm": "attn_norm_2",
}
_LAYER = {
    **_MIXER,
    **_FLASH,
    "ln0": "token_embd_norm",
    "ln1": "attn_norm",
    "ln2": "attn_norm_2",
    "ffn.x_k": "channel_mix_lerp_k.weight",
    "ffn.key": "channel_mix_key",
    "ffn.value": "channel_mix_value",
}

HUBS = {
    "rwkv7": hub("rwkv7", translate, _LAYER, _TOP, defaults={"max_position_embeddings": 1 << 20}),
}

FAMILIES = {RWKV7.name: RWKV7}
