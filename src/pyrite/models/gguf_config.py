"""ModelConfig from a GGUF file's metadata: `llama.block_count` and so on.

Source of the keys: the GGUF specification. What a file leaves out is the family's default.
"""

from __future__ import annotations

import math

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.values import Rope, RopeScaling
from pyrite.models import config as limits
from pyrite.models.config import Family, LayerConfig, ModelConfig
from pyrite.models.fields import MISSING, Fields
from pyrite.records import dataclass

FREQUENCY_FACTORS = "rope_freqs.weight"
EMBEDDING = "token_embd.weight"

# Keys under the architecture's name that change nothing in how tokens are computed here.
HARMLESS = frozenset({"tensor_data_layout", "rope.scaling.finetuned", "attention.causal"})


def read_gguf_config(checkpoint: Checkpoint, family: Family) -> ModelConfig:
    keys = Fields(checkpoint.metadata, prefix=checkpoint.architecture + ".")
    _refuse_variants(keys)
    num_layers = keys.integer("block_count", 1, limits.MAX_LAYERS)
    width = keys.integer("embedding_length", 1, limits.MAX_WIDTH)
    heads = _uniform(keys, "attention.head_count", num_layers, limits.MAX_HEADS)
    head_width = _head_width(keys, width, heads)
    ropes = _ropes(keys, checkpoint, family, head_width)
    config = ModelConfig(
        architecture=checkpoint.architecture,
        vocabulary=keys.integer("vocab_size", 1, limits.MAX_VOCABULARY, _rows(checkpoint)),
        context_length=keys.integer("context_length", 1, limits.MAX_CONTEXT),
        width=width,
        feed_forward=_uniform(keys, "feed_forward_length", num_layers, limits.MAX_WIDTH),
        heads=heads,
        key_heads=_uniform(keys, "attention.head_count_kv", num_layers, heads, default=heads),
        head_width=head_width,
        layers=_layers(keys, family, num_layers, ropes),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
        norm_offset=0.0,
        activation=family.activation,
        attention_scale=_scale(keys, family, num_layers, width / heads, head_width),
        attention_softcap=keys.number("attn_logit_softcapping", 0.0, 1e6, family.attention_softcap),
        final_softcap=keys.number("final_logit_softcapping", 0.0, 1e6, family.final_softcap),
        embedding_scale=math.sqrt(width) if family.scales_embeddings else 1.0,
        tied="output.weight" not in checkpoint.tensors,
        query_bias=family.query_bias or "blk.0.attn_q.bias" in checkpoint.tensors,
        output_bias="blk.0.attn_output.bias" in checkpoint.tensors,
        feed_forward_bias="blk.0.ffn_up.bias" in checkpoint.tensors,
        head_norms=family.head_norms,
    )
    limits.check_heads(config.heads, config.key_heads)
    keys.refuse_unread("the file", HARMLESS)
    return config


def _refuse_variants(keys: Fields) -> None:
    """Files that call themselves llama but compute something else."""
    if keys.integer("expert_count", 0, 1 << 16, 0) > 0:
        raise UnsupportedError(f"{keys.prefix}expert_count > 0: experts are not executed yet")
    keys.integer("expert_used_count", 0, 1 << 16, 0)
    if not keys.boolean("attention.causal", True):
        raise UnsupportedError(f"{keys.prefix}attention.causal = false: not a generating model")


def _uniform(
    keys: Fields, key: str, num_layers: int, high: int, default: int | object = MISSING
) -> int:
    """A number, or one for each layer as long as they are all the same."""
    if not hasattr(keys.get(key), "__len__"):
        return keys.integer(key, 1, high, default)
    items = keys.sequence(key, num_layers) or ()
    if len(set(items)) > 1:
        raise UnsupportedError(f"{keys.prefix}{key} differs from layer to layer: not executed yet")
    return Fields({key: items[0]}).integer(key, 1, high)


def _head_width(keys: Fields, width: int, heads: int) -> int:
    default = width // heads if width % heads == 0 else None
    head_width = keys.integer(
        "attention.key_length", 1, limits.MAX_HEAD_WIDTH, MISSING if default is None else default
    )
    value_width = keys.integer("attention.value_length", 1, limits.MAX_HEAD_WIDTH, head_width)
    if value_width != head_width:
        raise UnsupportedError(
            f"{keys.prefix}attention.value_length = {value_width}, but keys have {head_width}:"
            " different widths are not executed yet"
        )
    return head_width


@dataclass(frozen=True, slots=True)
class _Ropes:
    whole: Rope  # of layers without a window
    local: Rope  # of layers with one


def _ropes(keys: Fields, checkpoint: Checkpoint, family: Family, head_width: int) -> _Ropes:
    width = keys.integer("rope.dimension_count", 2, head_width, head_width)
    if width % 2:
        raise FormatError(f"{keys.prefix}rope.dimension_count = {width}: must be even")
    theta = keys.number("rope.freq_base", limits.MIN_THETA, limits.MAX_THETA, family.theta)
    scaling, factors = _scaling(keys, width), _factors(checkpoint, width)
    if scaling is not None and factors is not None:
        raise UnsupportedError(f"both {keys.prefix}rope.scaling and {FREQUENCY_FACTORS} are there")
    scaling = scaling or factors
    whole = Rope(theta, width, family.gguf_rope_layout, scaling)
    if family.local_theta == 0:
        return _Ropes(whole, whole)
    local = keys.number(
        "rope.freq_base_swa", limits.MIN_THETA, limits.MAX_THETA, family.local_theta
    )
    return _Ropes(whole, Rope(local, width, family.gguf_rope_layout))


def _scaling(keys: Fields, width: int) -> RopeScaling | None:
    factor = keys.number("rope.scaling.factor", 0.0, 1e6, 0.0)
    linear = keys.number("rope.scale_linear", 0.0, 1e6, 0.0)  # of old files
    kind = keys.text("rope.scaling.type", "linear" if linear else "none")
    original = keys.integer("rope.scaling.original_context_length", 0, limits.MAX_CONTEXT, 0)
    attention = keys.number("rope.scaling.attn_factor", 0.0, 1e3, 1.0)
    factor = factor or linear
    if kind == "none" or (kind == "linear" and factor in (0.0, 1.0)):
        return None
    if kind == "linear":
        return RopeScaling("linear", factor)
    if kind != "yarn":
        raise UnsupportedError(f"{keys.prefix}rope.scaling.type = {kind!r}: not executed yet")
    if factor < 1.0 or original == 0:
        raise FormatError(
            f"{keys.prefix}rope.scaling.factor = {factor:g} and original_context_length ="
            f" {original}: yarn needs a factor from 1 and a length"
        )
    return RopeScaling(
        "yarn",
        factor,
        original_context=original,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0),
        attention_factor=attention * (0.1 * math.log(factor) + 1.0),
    )


def _factors(checkpoint: Checkpoint, width: int) -> RopeScaling | None:
    """Llama 3's scaling, as its converter writes it: a divisor for each frequency."""
    tensor = checkpoint.tensors.get(FREQUENCY_FACTORS)
    if tensor is None:
        return None
    if tensor.type != "F32" or tensor.shape != (width // 2,):
        raise FormatError(
            f"{FREQUENCY_FACTORS} is {tensor.type} {tensor.shape}: must be F32 ({width // 2},)"
        )
    factors = tuple(float(factor) for factor in tensor.read().view("<f4"))
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise FormatError(f"{FREQUENCY_FACTORS}: every factor must be positive and finite")
    return RopeScaling("factors", 1.0, factors=factors)


def _layers(
    keys: Fields, family: Family, num_layers: int, ropes: _Ropes
) -> tuple[LayerConfig, ...]:
    if not family.window_pattern:
        return (LayerConfig(0, ropes.whole),) * num_layers
    window = keys.integer(
        "attention.sliding_window", 1, limits.MAX_CONTEXT, family.window or MISSING
    )
    whole, local = LayerConfig(0, ropes.whole), LayerConfig(window, ropes.local)
    return tuple(local if narrow else whole for narrow in _pattern(keys, family, num_layers))


def _pattern(keys: Fields, family: Family, num_layers: int) -> tuple[bool, ...]:
    """Whether each layer has a window: from a list, a period, or the family's period."""
    stated = keys.get("attention.sliding_window_pattern")
    if hasattr(stated, "__len__"):
        items = keys.sequence("attention.sliding_window_pattern", num_layers) or ()
        return tuple(bool(item) for item in items)
    period = keys.integer(
        "attention.sliding_window_pattern", 0, limits.MAX_LAYERS, family.window_pattern
    )
    return tuple(period > 0 and (index + 1) % period != 0 for index in range(num_layers))


def _scale(
    keys: Fields, family: Family, num_layers: int, width_by_heads: float, head_width: int
) -> float:
    wide = num_layers == family.wide_scale_layers
    default = (width_by_heads if wide else float(head_width)) ** -0.5
    scale = keys.number("attention.scale", 0.0, 1e3, 0.0)
    return scale or default


def _rows(checkpoint: Checkpoint) -> int | object:
    tensor = checkpoint.tensors.get(EMBEDDING)
    return MISSING if tensor is None or len(tensor.shape) != 2 else tensor.shape[0]
