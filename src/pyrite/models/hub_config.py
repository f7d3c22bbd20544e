"""What most config.json files state, as GGUF keys: sizes, heads, windows, norms, activation.

Each function reads some keys of a folder and puts their GGUF equivalents; `decoder` is all of them,
for models that are built like Llama. Rotary settings are in `hub_rope`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.values import Activation
from pyrite.models import config as limits
from pyrite.models.fields import MISSING, Fields, shorten
from pyrite.models.hub import Folder
from pyrite.models.hub_rope import rope

OF_ANOTHER = "config.json is of another model, or was changed: take the one of these weights"
ACTIVATIONS: Mapping[str, Activation] = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "relu": "relu",
    "sqrelu": "relu_squared",
}


def decoder(
    folder: Folder,
    norm: str = "rms",
    eps: float = 1e-6,
    is_partial: bool = False,
    may_stretch: bool = False,
) -> None:
    sizes(folder)
    heads(folder)
    norms(folder, norm, eps)
    rope(folder, is_partial=is_partial, may_stretch=may_stretch)
    require_activation(folder, "silu")
    head(folder)


def sizes(folder: Folder, widening: int = 0) -> None:
    """`widening`: how many times as wide as the stream the feed-forward is, where none is said."""
    keys = folder.keys
    if keys.group("text_config") is not None:
        raise UnsupportedError(
            f"config.json of {folder.architecture} describes more than text (text_config)",
            hint="take the text model alone",
        )
    stream(folder)
    widened = widening * folder.stated("embedding_length") or MISSING
    inner = keys.integer("intermediate_size", 1, limits.MAX_WIDTH, widened)
    folder.put("feed_forward_length", inner)


def stream(folder: Folder) -> None:
    """Layers and the residual stream through them."""
    keys = folder.keys
    folder.put("block_count", folder.num_layers)
    folder.put("embedding_length", keys.integer("hidden_size", 1, limits.MAX_WIDTH))
    length = keys.integer("max_position_embeddings", 1, limits.MAX_CONTEXT)
    folder.put("context_length", length)
    folder.put("vocab_size", keys.integer("vocab_size", 1, limits.MAX_VOCABULARY))


def heads(folder: Folder) -> None:
    keys = folder.keys
    count = keys.integer("num_attention_heads", 1, limits.MAX_HEADS)
    folder.put("attention.head_count", count)
    folder.put("attention.head_count_kv", keys.integer("num_key_value_heads", 1, count, count))
    width = folder.stated("embedding_length")
    if width % count and keys.get("head_dim") is None:
        raise FormatError(
            f"{keys.called('num_attention_heads')} = {count}: {keys.called('hidden_size')} ="
            f" {width} is no multiple of it, and {keys.called('head_dim')} is not stated"
        )
    head_width = keys.integer("head_dim", 1, limits.MAX_HEAD_WIDTH, width // count)
    folder.put("attention.key_length", head_width)
    folder.put("attention.value_length", head_width)


def norms(folder: Folder, kind: str = "rms", eps: float = 1e-6) -> None:
    """`eps`: where config.json does not say."""
    eps = folder.keys.number("rms_norm_eps", 0.0, 1.0, eps)
    name = "layer_norm_rms_epsilon" if kind == "rms" else "layer_norm_epsilon"
    folder.put(f"attention.{name}", eps)


def require_activation(folder: Folder, wanted: Activation, key: str = "hidden_act") -> None:
    """UnsupportedError where config.json names another than the architecture has."""
    stated = folder.keys.text(key, "silu" if wanted == "silu" else wanted)
    if ACTIVATIONS.get(stated, stated) != wanted:
        names = [name for name, meant in ACTIVATIONS.items() if meant == wanted]
        name = folder.keys.names.get(key, key)
        raise UnsupportedError(
            f"{name} = {stated[:60]!r} is not executed in {folder.architecture}",
            hint=f"those that are: {', '.join(names)}",
        )


def require(folder: Folder, *names: str) -> None:
    """Switches that are on in what is executed. UnsupportedError where config.json says false."""
    for name in names:
        if not folder.keys.boolean(name, True):
            stated = folder.keys.names.get(name, name)
            raise UnsupportedError(f"{stated} = false is not executed in {folder.architecture}")


def require_values(folder: Folder, wanted: Mapping[str, Any]) -> None:
    """Keys that say what the architecture is, with the only values that are executed."""
    for key, value in wanted.items():
        found = folder.keys.get(key)
        if found not in (None, value):
            problem = f"{key} = {shorten(found)}: only {value!r} is executed here"
            raise UnsupportedError(problem)


def ignore(folder: Folder, *names: str) -> None:
    """Keys that say nothing about what this model computes."""
    for name in names:
        folder.keys.get(name)


def head(folder: Folder, tied: bool = False) -> None:
    """`tied`: where config.json does not say. GGUF's tied models have no head of their own, and
    models that were made for vectors need none."""
    is_tied = folder.keys.boolean("tie_word_embeddings", tied)
    own, table = folder.tensors.get("output.weight"), folder.tensors.get("token_embd.weight")
    if own is None and not is_tied and not folder.has("pooling_type"):
        shape = (folder.stated("vocab_size"), folder.stated("embedding_length"))
        problem = f"missing: output.weight {shape}: tie_word_embeddings is false"
        raise TensorError(problem, hint=OF_ANOTHER)
    if own is not None and is_tied and table is not None:
        if not _same(own, table):
            raise TensorError(
                f"not used: output.weight {own.shape}: tie_word_embeddings is true, and it differs"
                " from the embedding table",
                hint=OF_ANOTHER,
            )
        folder.tensors.take("output.weight")


def _same(one: Tensor, other: Tensor) -> bool:
    alike = (one.type, one.shape) == (other.type, other.shape)
    return alike and bool((one.read() == other.read()).all())


def told(folder: Folder, key: str, *suffixes: str, default: bool = False, layer: int = 0) -> None:
    """A key that says whether a tensor, by any of its names, is in a layer. GGUF shows it by the
    tensor itself. FormatError where the two differ: one of them would be ignored."""
    is_told = folder.keys.boolean(key, default)
    names = [f"blk.{layer}.{suffix}" for suffix in suffixes]
    found = next((name for name in names if name in folder.tensors), None)
    if is_told != (found is not None):
        stated = folder.keys.names.get(key, key)
        where = f"{found} is there" if found else f"{names[0]} is missing"
        raise FormatError(f"{stated} = {str(is_told).lower()}, and tensor {where}")


def told_mixtures(folder: Folder, layers: Container[int]) -> None:
    """Which layers have experts, as keys say; GGUF shows it by their tensors."""
    for index in range(folder.num_layers):
        name, is_told = f"blk.{index}.ffn_gate_inp.weight", index in layers
        if is_told != (name in folder.tensors):
            found = "missing" if is_told else "there"
            has = "has" if is_told else "has no"
            raise FormatError(
                f"config.json says that layer {index} {has} experts, and {name} is {found}"
            )


def layer_numbers(folder: Folder, key: str) -> frozenset[int] | None:
    """Layers that config.json names; None where the key is absent."""
    found, last = folder.keys.get(key), folder.num_layers - 1
    if found is None:
        return None
    items = folder.keys.sequence(key, len(found) if isinstance(found, list) else 0) or ()
    return frozenset(Fields({key: item}).integer(key, 0, last) for item in items)


def biases(
    folder: Folder,
    attention: str = "attention_bias",
    feed_forward: str = "mlp_bias",
    default: bool = False,
) -> None:
    """Keys that say whether biases are there, and what holds where they are absent."""
    if attention:
        told(folder, attention, "attn_q.bias", "attn_qkv.bias", default=default)
    if feed_forward:
        told(folder, feed_forward, "ffn_up.bias")


def experts(
    folder: Folder,
    *,
    count: str = "num_experts",
    width: str | None = "moe_intermediate_size",
    normalized: str | None = "norm_topk_prob",
) -> None:
    keys = folder.keys
    names = (count, "num_local_experts", "num_experts")  # files of one family differ
    count = next((name for name in names if keys.get(name) is not None), count)
    found = keys.integer(count, 1, limits.MAX_EXPERTS)
    folder.put("expert_count", found)
    folder.put("expert_used_count", keys.integer("num_experts_per_tok", 1, found))
    if width is None:
        folder.put("expert_feed_forward_length", folder.stated("feed_forward_length"))
    else:
        folder.put("expert_feed_forward_length", keys.integer(width, 1, limits.MAX_WIDTH))
    if normalized is not None:
        folder.put("expert_weights_norm", keys.boolean(normalized, False))


def windows(
    folder: Folder,
    period: int = 0,
    *,
    late: bool = False,
    default: Any = 0,
    narrow: tuple[bool, ...] | None = None,
) -> None:
    """Which layers see a window: by `layer_types`, `narrow`, a period, or from a layer on (`late`).

    Without any of them all do, where there is a window at all.
    """
    keys = folder.keys
    narrow = _listed(folder, narrow or _by_older_keys(folder, period, late=late))
    is_listed = keys.get("layer_types") is not None
    has_width = keys.get("sliding_window") is not None or is_listed
    if not (period or (any(narrow) and has_width)):
        return
    default = default or (MISSING if any(narrow) else 1)
    width = keys.integer("sliding_window", 1, limits.MAX_CONTEXT, default)
    folder.put("attention.sliding_window", width)
    folder.put("attention.sliding_window_pattern", list(narrow))


def no_windows(folder: Folder) -> None:
    """For models that have the keys and no windows. UnsupportedError where one is switched on."""
    keys = folder.keys
    is_used = keys.boolean("use_sliding_window", False)
    if is_used or any(_listed(folder, (False,) * folder.num_layers)):
        raise UnsupportedError(
            f"use_sliding_window = {is_used}, or layer_types has windows: not"
            f" executed in {folder.architecture}"
        )
    for key in ("sliding_window", "max_window_layers"):
        keys.get(key)


def _listed(folder: Folder, older: tuple[bool, ...]) -> tuple[bool, ...]:
    types = layer_types(folder, ("full_attention", "sliding_attention"))
    return older if types is None else tuple(kind == "sliding_attention" for kind in types)


def layer_types(
    folder: Folder, known: tuple[str, ...], key: str = "layer_types"
) -> tuple[str, ...] | None:
    """The kind of each layer, where config.json lists them."""
    types = folder.keys.sequence(key, folder.num_layers)
    if types is None:
        return None
    for kind in types:
        if kind not in known:
            raise UnsupportedError(f"{key} holds {str(kind)[:60]!r}: not executed here")
    return tuple(types)


def _by_older_keys(folder: Folder, period: int, *, late: bool) -> tuple[bool, ...]:
    keys, layers = folder.keys, range(folder.num_layers)
    if period:
        period = _period(folder, period)
        return tuple((index + 1) % period != 0 for index in layers)
    if not late:
        return (True,) * len(layers)
    used = keys.boolean("use_sliding_window", False)
    first = keys.integer("max_window_layers", 0, limits.MAX_LAYERS, len(layers))
    return tuple(used and index >= first for index in layers)


def _period(folder: Folder, default: int) -> int:
    keys = folder.keys
    names = ("sliding_window_pattern", "_sliding_window_pattern")
    stated = [keys.integer(name, 1, limits.MAX_LAYERS, 0) for name in names if keys.get(name)]
    if len(set(stated)) > 1:
        raise FormatError(f"{names[0]} = {stated[0]}, but {names[1]} = {stated[1]}")
    return stated[0] if stated else default
