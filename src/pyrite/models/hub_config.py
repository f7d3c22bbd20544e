"""ModelConfig from a config.json of the Hugging Face hub, in its older and its newer keys.

Older: `rope_theta`, `rope_scaling`, `sliding_window_pattern`; newer: `rope_parameters`,
`layer_types`. A key that is neither understood nor known to be harmless is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.graph.values import Activation
from pyrite.models import config as limits
from pyrite.models.config import Family, LayerConfig, ModelConfig
from pyrite.models.fields import MISSING, Fields
from pyrite.models.hub_rope import read_ropes

ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
}

# Keys that say nothing about the mathematics of one token after another.
# fmt: off
HARMLESS = frozenset(
    (
        "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures",
        "attention_dropout", "auto_map", "begin_suppress_tokens", "bos_token_id",
        "cache_implementation", "chunk_size_feed_forward", "decoder_start_token_id", "dtype",
        "eos_token_id", "finetuning_task", "generation_config", "hidden_dropout", "id2label",
        "initializer_range", "is_decoder", "is_llama_config", "label2id", "model_type",
        "num_return_sequences", "output_attentions", "output_hidden_states", "pad_token_id",
        "prefix", "pretraining_tp", "problem_type", "return_dict", "sep_token_id",
        "task_specific_params", "tf_legacy_loss", "tokenizer_class", "torch_dtype", "torchscript",
        "transformers.js_config", "transformers_version", "unsloth_fixed", "unsloth_version",
        "use_cache",
    )
)
# fmt: on


def read_hub_config(checkpoint: Checkpoint, family: Family) -> ModelConfig:
    keys = Fields(checkpoint.metadata)
    if keys.group("text_config") is not None:
        raise UnsupportedError(
            f"config.json of {checkpoint.architecture} describes more than text (text_config)",
            hint="take the text model alone",
        )
    num_layers = keys.integer("num_hidden_layers", 1, limits.MAX_LAYERS)
    width = keys.integer("hidden_size", 1, limits.MAX_WIDTH)
    heads = keys.integer("num_attention_heads", 1, limits.MAX_HEADS)
    head_width = _head_width(keys, width, heads)
    context_length = keys.integer("max_position_embeddings", 1, limits.MAX_CONTEXT)
    output_bias = not family.query_bias and keys.boolean("attention_bias", False)
    config = ModelConfig(
        architecture=checkpoint.architecture,
        vocabulary=keys.integer("vocab_size", 1, limits.MAX_VOCABULARY),
        context_length=context_length,
        width=width,
        feed_forward=keys.integer("intermediate_size", 1, limits.MAX_WIDTH),
        heads=heads,
        key_heads=keys.integer("num_key_value_heads", 1, heads, heads),
        head_width=head_width,
        layers=_layers(keys, family, num_layers, head_width, context_length),
        norm_eps=keys.number("rms_norm_eps", 0.0, 1.0, 1e-6),
        norm_offset=family.hub_norm_offset,
        activation=_activation(keys, family),
        attention_scale=_scale(keys, family, head_width),
        attention_softcap=_softcap(keys, "attn_logit_softcapping", family.attention_softcap),
        final_softcap=_softcap(keys, "final_logit_softcapping", family.final_softcap),
        embedding_scale=math.sqrt(width) if family.scales_embeddings else 1.0,
        tied=keys.boolean("tie_word_embeddings", family.tied),
        query_bias=family.query_bias or output_bias,
        output_bias=output_bias,
        feed_forward_bias=keys.boolean("mlp_bias", False),
        head_norms=family.head_norms,
    )
    limits.check_heads(config.heads, config.key_heads)
    keys.refuse_unread("config.json", HARMLESS)
    return config


def _head_width(keys: Fields, width: int, heads: int) -> int:
    divides = width % heads == 0
    default = width // heads if divides else MISSING
    return keys.integer("head_dim", 1, limits.MAX_HEAD_WIDTH, default)


def _activation(keys: Fields, family: Family) -> Activation:
    """Gemma's `hidden_act` is not what its published code computes; `hidden_activation` is."""
    if family.activation == "gelu_tanh":
        written = keys.text("hidden_act", "gelu")
        stated = keys.text("hidden_activation", "gelu_pytorch_tanh")
        stated = stated if written in ("gelu", "gelu_pytorch_tanh") else written
    else:
        stated = keys.text("hidden_act", "silu")
    if stated not in ACTIVATIONS:
        raise UnsupportedError(
            f"hidden_act = {stated[:60]!r} is not executed here",
            hint=f"those that are: {', '.join(ACTIVATIONS)}",
        )
    return ACTIVATIONS[stated]


def _scale(keys: Fields, family: Family, head_width: int) -> float:
    if family.query_scalar == 0:
        return 1 / math.sqrt(head_width)
    return 1 / math.sqrt(keys.number("query_pre_attn_scalar", 1e-6, 1e6, family.query_scalar))


def _softcap(keys: Fields, key: str, default: float) -> float:
    """A null switches it off; an absent key is the family's default."""
    off = key in keys.values and keys.values[key] is None
    return keys.number(key, 0.0, 1e6, 0.0 if off else default)


def _layers(
    keys: Fields, family: Family, num_layers: int, head_width: int, context_length: int
) -> tuple[LayerConfig, ...]:
    ropes = read_ropes(keys, family, head_width, context_length)
    narrow = _windowed(keys, family, num_layers)
    window = _window(keys, family) if any(narrow) else 0
    keys.get("sliding_window")
    whole, local = LayerConfig(0, ropes.whole), LayerConfig(window, ropes.local)
    return tuple(local if layer else whole for layer in narrow)


def _window(keys: Fields, family: Family) -> int:
    return keys.integer("sliding_window", 1, limits.MAX_CONTEXT, family.window or MISSING)


def _windowed(keys: Fields, family: Family, num_layers: int) -> tuple[bool, ...]:
    """Whether each layer has a window: `layer_types`, else the family's older keys."""
    older = _windowed_by_older_keys(keys, family, num_layers)
    types = keys.sequence("layer_types", num_layers)
    if types is None:
        return older
    has_windows = family.late_windows or family.window_pattern > 0
    for kind in types:
        if kind != "full_attention" and not (has_windows and kind == "sliding_attention"):
            raise UnsupportedError(f"layer_types holds {str(kind)[:60]!r}: not executed here")
    return tuple(kind == "sliding_attention" for kind in types)


def _windowed_by_older_keys(keys: Fields, family: Family, num_layers: int) -> tuple[bool, ...]:
    if family.window_pattern:
        period = _period(keys, family)
        return tuple((index + 1) % period != 0 for index in range(num_layers))
    if not family.late_windows:
        return (False,) * num_layers
    used = keys.boolean("use_sliding_window", False)
    first = keys.integer("max_window_layers", 0, limits.MAX_LAYERS, num_layers)
    return tuple(used and index >= first for index in range(num_layers))


def _period(keys: Fields, family: Family) -> int:
    names = ("sliding_window_pattern", "_sliding_window_pattern")
    stated = [keys.integer(name, 1, limits.MAX_LAYERS, 0) for name in names if keys.get(name)]
    if len(set(stated)) > 1:
        raise FormatError(f"{names[0]} = {stated[0]}, but {names[1]} = {stated[1]}")
    return stated[0] if stated else family.window_pattern
