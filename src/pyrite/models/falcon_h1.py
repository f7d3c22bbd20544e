"""Falcon-H1: in each layer attention and Mamba 2's mixer side by side, behind one norm.

A folder states factors for what many projections give; GGUF files have them in the weights.

Source: arXiv 2507.22448.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config, hub_space, mamba2
from pyrite.models.arrange import Tensors
from pyrite.models.config import Family, ModelConfig
from pyrite.models.fields import Fields
from pyrite.models.hub import ATTENTION, TOP, Folder, hub


def layer(graph: GraphBuilder, config: ModelConfig, x: View, index: int) -> View:
    assert config.space is not None
    name = f"blk.{index}."
    normed = blocks.norm(graph, config, x, name + "attn_norm")
    mixed = mamba2.mix(graph, config, normed, index, has_norm=config.space.has_norm)
    x = graph.add(graph.add(x, mixed), blocks.attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, name + "ffn_norm")
    return graph.add(x, blocks.feed_forward(graph, config, normed, index))


def arrange(tensors: Tensors) -> None:
    """The second norm's name has no ending in GGUF files."""
    mamba2.arrange(tensors)
    for layer in tensors.layers():
        tensors.rename(layer + "ffn_norm", layer + "ffn_norm.weight")


FALCON_H1 = Family(name="falcon-h1", layer=layer, theta=1e5, arrange=arrange)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5)
    hub_space.by_heads(folder)
    hub_config.require(folder, "mamba_use_mlp")
    hub_config.ignore(folder, "mlp_expansion_factor")  # the width itself is stated
    _check_norm(folder)
    _fold(folder)


def _check_norm(folder: Folder) -> None:
    """GGUF shows by the tensors whether a norm follows the gate."""
    hub_config.told(folder, "mamba_rms_norm", "ssm_norm.weight")
    is_first = folder.keys.boolean("mamba_norm_before_gate", True)
    if is_first and folder.keys.boolean("mamba_rms_norm", False):
        raise UnsupportedError("mamba_norm_before_gate = true is not executed in falcon-h1")


def _fold(folder: Folder) -> None:
    """The factors into the weights."""
    keys = folder.keys
    factor = partial(keys.number, low=-1e6, high=1e6, default=1.0)
    inward, outward = factor("attention_in_multiplier"), factor("attention_out_multiplier")
    gate, down = _factors(keys, "mlp_multipliers", 2)
    embedding, head = factor("embedding_multiplier"), factor("lm_head_multiplier")
    for name, value in (
        ("attn_q", inward),
        ("attn_k", inward * factor("key_multiplier")),
        ("attn_v", inward),
        ("attn_output", outward),
        ("ffn_gate", gate),
        ("ffn_down", down),
        ("ssm_out", factor("ssm_out_multiplier")),
    ):
        folder.change(name + ".weight", partial(_times, factor=value))
    folder.change("ssm_in.weight", _mixer_factors(folder, factor("ssm_in_multiplier")))
    folder.tensors.change("token_embd.weight", partial(_times, factor=embedding))
    folder.tensors.change("output.weight", partial(_times, factor=head))
    if "output.weight" not in folder.tensors:  # the table has the other factor
        if embedding == 0.0:
            raise FormatError("embedding_multiplier = 0: must not be zero in a table with two uses")
        folder.put("logit_scale", head / embedding)


def _mixer_factors(folder: Folder, factor: float) -> Callable[[Tensor], Tensor]:
    """Of its first projection, whose rows are the gate's, x's, b's, c's and the step's."""
    inner, heads = folder.stated("ssm.inner_size"), folder.stated("ssm.time_step_rank")
    shared = folder.stated("ssm.group_count") * folder.stated("ssm.state_size")
    own = _factors(folder.keys, "ssm_multipliers", 5)
    each = np.array(own, np.float32) * np.float32(factor)
    by_row = np.repeat(each, (inner, inner, shared, shared, heads))

    def times(values: derived.Floats, first: int) -> derived.Floats:
        return values * by_row[first : first + len(values), None]

    def change(tensor: Tensor) -> Tensor:
        if tensor.num_rows != len(by_row):
            return tensor  # its shape is refused when it is compared
        return _computed(tensor, times, f"times {factor} {own}")

    return change


def _factors(keys: Fields, key: str, count: int) -> tuple[float, ...]:
    items = keys.sequence(key, count) or (1.0,) * count
    return tuple(Fields({key: item}).number(key, -1e6, 1e6) for item in items)


def _times(tensor: Tensor, factor: float) -> Tensor:
    if factor == 1.0:
        return tensor
    return _computed(tensor, lambda values, _: values * np.float32(factor), f"times {factor}")


def _computed(
    tensor: Tensor, compute: Callable[[derived.Floats, int], derived.Floats], recipe: str
) -> Tensor:
    """Of the same type: what is rounded in the folder is rounded once more."""
    tensor = derived.with_items(tensor)
    return derived.computed(tensor, compute, recipe, tensor.type)


_LAYER = {
    **ATTENTION,
    **hub_space.mixer("mamba"),
    "input_layernorm": "attn_norm",
    "pre_ff_layernorm.weight": "ffn_norm",
    "feed_forward.gate_proj": "ffn_gate",
    "feed_forward.up_proj": "ffn_up",
    "feed_forward.down_proj": "ffn_down",
}
_TOP = {**TOP, "model.final_layernorm": "output_norm"}

HUBS = {"falcon_h1": hub("falcon-h1", translate, _LAYER, _TOP)}

FAMILIES = {FALCON_H1.name: FALCON_H1}
