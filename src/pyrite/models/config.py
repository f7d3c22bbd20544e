"""What an architecture file needs to know of one model, whatever format stated it.

Plain data, filled by `gguf_config` and `hub_config`; every number is bounded here once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pyrite.errors import FormatError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.values import Activation, Rope, View
from pyrite.records import dataclass

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20  # columns of any matrix but the head's
MAX_HEADS = 1 << 12
MAX_HEAD_WIDTH = 1 << 12
MAX_VOCABULARY = 1 << 22
MAX_CONTEXT = 1 << 25  # tokens
MIN_THETA = 2.0
MAX_THETA = 1e12


def check_heads(heads: int, key_heads: int) -> None:
    if heads % key_heads:
        raise FormatError(f"{heads} heads over {key_heads} key heads: must be a multiple")


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """`window` is 0 where a token sees everything before it."""

    window: int
    rope: Rope


@dataclass(frozen=True, slots=True)
class ModelConfig:
    architecture: str  # as the file calls it
    vocabulary: int
    context_length: int
    width: int  # of the residual stream
    feed_forward: int
    heads: int
    key_heads: int
    head_width: int
    layers: tuple[LayerConfig, ...]
    norm_eps: float
    norm_offset: float
    activation: Activation
    attention_scale: float
    attention_softcap: float  # 0: none
    final_softcap: float  # 0: none
    embedding_scale: float
    tied: bool  # the head reads the embedding table
    query_bias: bool  # and key and value
    output_bias: bool  # of attention
    feed_forward_bias: bool
    head_norms: bool  # queries and keys are normalised by head


@dataclass(frozen=True, slots=True)
class Family:
    """What an architecture takes for granted; declared beside its `layer`.

    `window_pattern` p > 0: every p-th layer sees everything, the others a window.
    """

    name: str
    layer: Callable[[GraphBuilder, ModelConfig, View, int], View]  # residual stream -> the next
    activation: Activation
    hub_norm_offset: float = 0.0  # GGUF's norm weights include it
    gguf_rope_layout: Literal["halves", "pairs"] = "halves"
    theta: float = 10000.0  # where the file does not say
    local_theta: float = 0.0  # of layers with a window; 0: the same as the others'
    window: int = 0  # where the file does not say
    window_pattern: int = 0
    late_windows: bool = False  # config.json may give windows to layers from max_window_layers on
    tied: bool = False  # where config.json does not say
    scales_embeddings: bool = False  # by sqrt(width)
    query_bias: bool = False  # always there
    head_norms: bool = False  # queries and keys are normalised by head
    query_scalar: float = 0.0  # config.json's default: attention scale = scalar ** -0.5
    wide_scale_layers: int = 0  # GGUF with so many layers: scale = (width / heads) ** -0.5
    attention_softcap: float = 0.0  # where the file does not say
    final_softcap: float = 0.0  # where the file does not say
