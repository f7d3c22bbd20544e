"""ModelConfig from GGUF metadata: `llama.block_count` and so on.

A folder's config.json has been translated to the same keys before (`models.hub`). Source of the
keys: the GGUF specification; some that it lacks are ours: `rope.scaling.truncate`,
`rope.layer_pattern`. What a file leaves out is the family's default. Rotary positions are in
`gguf_rope`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.graph.ops import Routing
from pyrite.models import config as limits
from pyrite.models import gguf_held as held
from pyrite.models.config import (
    ExpertsConfig,
    Family,
    HeadNorms,
    LatentConfig,
    LayerConfig,
    ModelConfig,
)
from pyrite.models.fields import MISSING, Fields
from pyrite.models.gguf_gemma4 import read_gemma4
from pyrite.models.gguf_recurrent import read_space, read_wkv
from pyrite.models.gguf_rope import latent_growth, read_ropes

EMBEDDING = "token_embd.weight"

# Keys under the architecture's name that change nothing in how tokens are computed here.
HARMLESS = frozenset(
    {
        "tensor_data_layout",
        "rope.scaling.finetuned",
        "attention.causal",
        "n_deepstack_layers",  # which see, too
        "nextn_predict_layers",  # see models.predictors
        "pooling_type",
        "use_parallel_residual",  # a norm of its own shows it; old files say true of all
    }
)
SHARES = {1: "softmax", 2: "sigmoid"}  # expert_gating_func


def read_gguf_config(
    checkpoint: Checkpoint, family: Family, context_length: int | None = None
) -> ModelConfig:
    """`context_length`: what the model is loaded for, which some rotary settings depend on."""
    prefix = checkpoint.architecture + "."
    keys = Fields(checkpoint.metadata, prefix=prefix, origins=checkpoint.origins)
    tensors = checkpoint.tensors
    if not keys.boolean("attention.causal", True):
        raise UnsupportedError(f"{keys.called('attention.causal')} = false: not a generating model")
    num_layers = keys.integer("block_count", 1, limits.MAX_LAYERS)
    width = keys.integer("embedding_length", 1, limits.MAX_WIDTH)
    full_length = keys.integer("context_length", 1, limits.MAX_CONTEXT)
    latent = _latent(keys)
    heads = _heads(keys, family, num_layers)
    head_width, value_width = _head_widths(keys, width, heads, latent)
    turned = latent.plain_width + latent.rope_width if latent else head_width
    layers = _layers(keys, checkpoint, family, heads, head_width, context_length or full_length)
    held.hold_mixtures(keys, layers)
    if latent is not None:
        held.hold_latent(keys, latent, heads[0])
    config = ModelConfig(
        architecture=checkpoint.architecture,
        vocabulary=keys.integer("vocab_size", 1, limits.MAX_VOCABULARY, _rows(checkpoint)),
        context_length=full_length,
        width=width,
        head_width=head_width,
        value_width=value_width,
        layers=layers,
        norm=family.norm,
        norm_eps=_norm_eps(keys, family),
        norm_bias=family.norm_bias,
        activation=family.activation,
        attention_scale=_scale(keys, family, num_layers, width / max(1, *heads), turned)
        * (latent_growth(keys) if latent else 1.0),
        attention_softcap=_softcap(keys, family),
        final_softcap=keys.number("final_logit_softcapping", 0.0, 1e6, family.final_softcap),
        embedding_scale=_embedding_scale(keys, family, width),
        residual_scale=_residual_scale(keys, family),
        logit_scale=_logit_scale(keys, family),
        tied="output.weight" not in tensors,
        query_bias=family.query_bias or "blk.0.attn_q.bias" in tensors,
        output_bias="blk.0.attn_output.bias" in tensors,
        feed_forward_bias="blk.0.ffn_up.bias" in tensors,
        head_norms=_head_norms(family, tensors),
        feed_forward_norm="blk.0.ffn_norm.weight" in tensors,
        kernel=_short_kernel(keys, tensors),
        experts=_experts(keys, checkpoint, family),
        latent=latent,
        space=read_space(keys, checkpoint),
        wkv=read_wkv(keys, width),
        gemma4=read_gemma4(keys, checkpoint, layers, head_width) if family.has_own_inputs else None,
    )
    keys.refuse_unread("config.json" if checkpoint.origins else "the file", HARMLESS)
    return config


def _heads(keys: Fields, family: Family, num_layers: int) -> tuple[int, ...]:
    if family.has_attention:
        return _per_layer(keys, "attention.head_count", num_layers, 1, limits.MAX_HEADS)
    for key in ("attention.head_count", "attention.head_count_kv"):
        keys.integer(key, 0, 0, 0)
    return (0,) * num_layers


def _per_layer(
    keys: Fields, key: str, num_layers: int, low: int, high: int, default: Any = MISSING
) -> tuple[int, ...]:
    """A number for all layers, or one for each."""
    if not hasattr(keys.get(key), "__len__"):
        return (keys.integer(key, low, high, default),) * num_layers
    items = keys.sequence(key, num_layers) or ()
    return tuple(Fields({key: item}).integer(key, low, high) for item in items)


def _head_widths(
    keys: Fields, width: int, heads: Sequence[int], latent: LatentConfig | None
) -> tuple[int, int]:
    """Of queries and keys, and of values; a latent model's are those of its cached rows."""
    if latent is not None:
        return latent.key_rank + latent.rope_width, latent.key_rank
    most = max(heads)
    if most == 0:
        return 1, 1
    if width % most and keys.get("attention.key_length") is None:
        raise FormatError(
            f"{keys.called('attention.head_count')} = {most}: {keys.called('embedding_length')} ="
            f" {width} is no multiple of it, and {keys.called('attention.key_length')} is missing"
        )
    head_width = keys.integer("attention.key_length", 1, limits.MAX_HEAD_WIDTH, width // most)
    value_width = keys.integer("attention.value_length", 1, limits.MAX_HEAD_WIDTH, head_width)
    return head_width, value_width


def _head_norms(family: Family, tensors: Mapping[str, Tensor]) -> HeadNorms:
    is_absent = family.may_lack_head_norms and "blk.0.attn_q_norm.weight" not in tensors
    return "" if is_absent else family.head_norms


def _norm_eps(keys: Fields, family: Family) -> float:
    name = "layer_norm_rms_epsilon" if family.norm == "rms" else "layer_norm_epsilon"
    return keys.number(f"attention.{name}", 0.0, 1.0)


def _embedding_scale(keys: Fields, family: Family, width: int) -> float:
    default = math.sqrt(width) if family.scales_embeddings else 1.0
    return keys.number("embedding_scale", 1e-6, 1e6, default)


def _softcap(keys: Fields, family: Family) -> float:
    if not family.has_attention:
        return 0.0
    return keys.number("attn_logit_softcapping", 0.0, 1e6, family.attention_softcap)


def _residual_scale(keys: Fields, family: Family) -> float:
    return keys.number("residual_scale", 1e-6, 1e6, 1.0) if family.scales_residual else 1.0


def _short_kernel(keys: Fields, tensors: Mapping[str, Tensor]) -> int:
    if not any(".shortconv." in name for name in tensors):
        return 0
    return keys.integer("shortconv.l_cache", 0, limits.MAX_KERNEL, 0)


def _logit_scale(keys: Fields, family: Family) -> float:
    """Granite's key is a divisor, Cohere's a factor."""
    scale = keys.number("logit_scale", 1e-6, 1e6, 1.0)
    return 1 / scale if family.divides_logits else scale


def _layers(
    keys: Fields,
    checkpoint: Checkpoint,
    family: Family,
    heads: tuple[int, ...],
    head_width: int,
    context_length: int,
) -> tuple[LayerConfig, ...]:
    count = len(heads)
    windows = _windows(keys, family, count)
    has_windows = any(windows)
    ropes = read_ropes(keys, checkpoint, family, head_width, context_length, has_windows)
    turning = _turning(keys, family, windows)
    feed_forward = _per_layer(keys, "feed_forward_length", count, 0, limits.MAX_WIDTH, 0)
    held.hold_feed_forward(keys, feed_forward, checkpoint.tensors)
    key_heads = _key_heads(keys, family, heads)
    is_mixture = keys.integer("expert_count", 0, limits.MAX_EXPERTS, 0) > 0
    found = []
    for index in range(count):
        rope = ropes.local if windows[index] else ropes.whole
        found.append(
            LayerConfig(
                window=windows[index],
                rope=rope if turning[index] else None,
                heads=heads[index],
                key_heads=key_heads[index],
                feed_forward=feed_forward[index],
                has_experts=is_mixture and f"blk.{index}.ffn_gate_inp.weight" in checkpoint.tensors,
            )
        )
    return tuple(found)


def _key_heads(keys: Fields, family: Family, heads: tuple[int, ...]) -> tuple[int, ...]:
    """Of each layer; 0: it has no attention."""
    found = heads
    if any(heads) and keys.get("attention.head_count_kv") is not None:
        found = _per_layer(keys, "attention.head_count_kv", len(heads), 0, max(heads))
    for own, shared in zip(heads, found, strict=True):
        if shared:
            limits.check_heads(own, shared)
    if not family.attention_period:
        return found
    default = family.attention_period
    period = keys.integer("full_attention_interval", 1, limits.MAX_LAYERS, default)
    recurrent = _pattern(keys, "attention.recurrent_layers", period, len(heads))
    held.hold_period(keys, "full_attention_interval", period, recurrent)
    return tuple(0 if other else own for own, other in zip(found, recurrent, strict=True))


def _turning(keys: Fields, family: Family, windows: tuple[int, ...]) -> tuple[bool, ...]:
    """Of each layer: whether queries and keys turn. Granite's key for it is of another name."""
    turns = family.turns
    if family.states_turning:
        turns = keys.boolean("rope.scaling.finetuned", True)
    if family.turns_in_windows and any(windows):
        return tuple(turns and window > 0 for window in windows)
    if not turns or not family.still_period:
        return (turns,) * len(windows)
    return _pattern(keys, "rope.layer_pattern", family.still_period, len(windows))


def _windows(keys: Fields, family: Family, num_layers: int) -> tuple[int, ...]:
    if not family.window_pattern and not family.may_have_windows:
        return (0,) * num_layers
    default = 0 if family.may_have_windows else family.window or MISSING
    window = keys.integer("attention.sliding_window", 0, limits.MAX_CONTEXT, default)
    if window == 0:
        return (0,) * num_layers
    period = family.window_pattern or num_layers + 1
    narrow = _pattern(keys, "attention.sliding_window_pattern", period, num_layers)
    return tuple(window if inside else 0 for inside in narrow)


def _pattern(keys: Fields, key: str, period: int, num_layers: int) -> tuple[bool, ...]:
    """Of each layer, from a list or a period: all but every so many-th; with 0, all."""
    stated = keys.get(key)
    if hasattr(stated, "__len__"):
        return tuple(bool(item) for item in keys.sequence(key, num_layers) or ())
    period = keys.integer(key, 0, limits.MAX_LAYERS + 1, period)
    return tuple(period == 0 or (index + 1) % period != 0 for index in range(num_layers))


def _scale(
    keys: Fields, family: Family, num_layers: int, width_by_heads: float, head_width: int
) -> float:
    if not family.has_attention:
        return 1.0
    wide = num_layers == family.wide_scale_layers
    default = (width_by_heads if wide else float(head_width)) ** -0.5
    scale = keys.number("attention.scale", 0.0, 1e3, 0.0)
    return scale or family.attention_scale or default


def _experts(keys: Fields, checkpoint: Checkpoint, family: Family) -> ExpertsConfig | None:
    count = keys.integer("expert_count", 0, limits.MAX_EXPERTS, 0)
    if count == 0:
        keys.integer("expert_used_count", 0, 0, 0)
        return None
    if family.routing is None:
        raise UnsupportedError(
            f"{keys.called('expert_count')} = {count}: {family.name} is executed without experts"
        )
    used = keys.integer("expert_used_count", 1, count)
    routing = replace(_routing(keys, checkpoint, family.routing, count), num_used=used)
    return ExpertsConfig(
        count=count,
        feed_forward=_expert_width(keys, checkpoint),
        shared=_shared_width(keys, checkpoint),
        routing=routing,
    )


def _routing(keys: Fields, checkpoint: Checkpoint, default: Routing, count: int) -> Routing:
    """Groups of sigmoids count as their two best: DeepSeek V3's choice; V2 has softmax, and the
    best alone."""
    gating = keys.integer("expert_gating_func", 0, 2, 0)
    groups = keys.integer("expert_group_count", 0, count, 0) or default.groups
    if count % groups:
        raise UnsupportedError(f"{keys.called('expert_group_count')} = {groups} of {count} experts")
    used_groups = keys.integer("expert_group_used_count", 0, groups, 0) or default.used_groups
    in_reach = count // groups * used_groups
    if in_reach < keys.integer("expert_used_count", 1, count):
        raise FormatError(
            f"{keys.called('expert_group_used_count')} = {used_groups} of {groups} groups, which"
            f" hold {in_reach} experts: {keys.called('expert_used_count')} takes more"
        )
    shares = SHARES.get(gating, default.shares)
    return replace(
        default,
        shares=shares,  # type: ignore[arg-type]
        bias=default.bias if default.bias and _first(checkpoint, default.bias) else None,
        group_score="top2" if shares == "sigmoid" else "max",
        is_normalized=keys.boolean("expert_weights_norm", default.is_normalized),
        scale=keys.number("expert_weights_scale", 0.0, 1e6, 0.0) or default.scale,
        groups=groups,
        used_groups=used_groups,
    )


def _expert_width(keys: Fields, checkpoint: Checkpoint) -> int:
    """Old files do not say, and their experts are as wide as the tensors are."""
    tensor = _first(checkpoint, "ffn_down_exps.weight")
    default = MISSING if tensor is None else tensor.shape[-1]
    return keys.integer("expert_feed_forward_length", 1, limits.MAX_WIDTH, default)


def _shared_width(keys: Fields, checkpoint: Checkpoint) -> int:
    tensor = _first(checkpoint, "ffn_down_shexp.weight")
    default = 0 if tensor is None else tensor.shape[-1]
    held.hold_shared(keys, _expert_width(keys, checkpoint), default)
    most = 0 if tensor is None else limits.MAX_WIDTH
    return keys.integer("expert_shared_feed_forward_length", 0, most, default)


def _first(checkpoint: Checkpoint, name: str) -> Any:
    """The tensor of the first layer that has it."""
    layers = (f"blk.{index}.{name}" for index in range(limits.MAX_LAYERS))
    return next((checkpoint.tensors[one] for one in layers if one in checkpoint.tensors), None)


def _latent(keys: Fields) -> LatentConfig | None:
    key_rank = keys.integer("attention.kv_lora_rank", 0, limits.MAX_WIDTH, 0)
    if key_rank == 0:
        return None
    rope_width = keys.integer("rope.dimension_count", 2, limits.MAX_HEAD_WIDTH)
    key_width = _expanded_width(keys, "key_length")
    return LatentConfig(
        query_rank=keys.integer("attention.q_lora_rank", 0, limits.MAX_WIDTH, 0),
        key_rank=key_rank,
        rope_width=rope_width,
        plain_width=key_width - rope_width,
        value_width=_expanded_width(keys, "value_length"),
    )


def _expanded_width(keys: Fields, name: str) -> int:
    """Of a head's keys or values once they are expanded; newer files have a key of its own."""
    older = keys.integer(f"attention.{name}", 1, limits.MAX_HEAD_WIDTH)
    return keys.integer(f"attention.{name}_mla", 1, limits.MAX_HEAD_WIDTH, older)


def _rows(checkpoint: Checkpoint) -> int | object:
    tensor = checkpoint.tensors.get(EMBEDDING)
    return MISSING if tensor is None or len(tensor.shape) != 2 else tensor.shape[0]
