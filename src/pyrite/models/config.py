"""What an architecture file needs to know of one model, and what it takes for granted itself.

Plain data, filled by `gguf_config`; every number is bounded there once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pyrite.errors import FormatError
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import Activation, Rope, View
from pyrite.records import dataclass

if TYPE_CHECKING:
    from pyrite.formats.checkpoint import Checkpoint
    from pyrite.models.arrange import Tensors

MAX_LAYERS = 1024
MAX_WIDTH = 1 << 20  # columns of any matrix but the head's
MAX_HEADS = 1 << 12
MAX_HEAD_WIDTH = 1 << 12
MAX_VOCABULARY = 1 << 22
MAX_CONTEXT = 1 << 25  # tokens
MAX_EXPERTS = 1 << 12
MAX_KERNEL = 1 << 8  # taps of a convolution
MIN_THETA = 2.0
MAX_THETA = 1e12


# Queries and keys are normalised by head with one weight, by head each with its own, or by row.
HeadNorms = Literal["", "head", "own", "row"]


def check_heads(heads: int, key_heads: int) -> None:
    if heads % key_heads:
        raise FormatError(f"{heads} heads over {key_heads} key heads: must be a multiple")


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """`window` is 0 where a token sees everything before it; `rope` None where nothing turns."""

    window: int
    rope: Rope | None
    heads: int
    key_heads: int  # 0: the layer has no attention
    feed_forward: int  # 0: it has none, or experts alone
    has_experts: bool = False


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    """`shared` is the width of the feed-forward that every token passes; 0: there is none."""

    count: int
    feed_forward: int  # of one expert
    shared: int
    routing: Routing  # its bias is named by layer: see blocks.routing


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Attention whose keys and values are kept compressed (DeepSeek's MLA)."""

    query_rank: int  # 0: queries are projected at once
    key_rank: int  # columns of the latent
    rope_width: int  # columns of a head that turn
    plain_width: int  # columns of a head that do not
    value_width: int  # of a head


@dataclass(frozen=True, slots=True)
class StateSpaceConfig:
    """Mamba's and Mamba 2's sizes."""

    kernel: int  # taps of the convolution
    inner: int  # columns of the scan
    state: int  # columns of the state
    heads: int  # of Mamba 2; of Mamba the rank of its step sizes
    groups: int
    has_norm: bool  # after the gate, by groups: Falcon-H1 may lack it
    step_limits: tuple[float, float] = (0.0, math.inf)
    part_eps: float = 0.0  # of norms without weights of what decides the scan; 0: there are none


@dataclass(frozen=True, slots=True)
class WkvConfig:
    """RWKV-7's sizes: of a head, and of what passes a narrow product."""

    head_width: int
    decay_rank: int
    rate_rank: int
    value_rank: int
    gate_rank: int
    norm_eps: float  # of a head


@dataclass(frozen=True, slots=True)
class Gemma4Config:
    """What Gemma 4 has that other families do not."""

    local_head_width: int  # of layers with a window
    input_width: int  # columns of the token's embedding that a layer has of its own; 0: none
    reads: tuple[int, ...]  # of each layer the one whose keys and values it reads
    has_values: tuple[bool, ...]  # of each layer: a projection of values; else they are its keys


@dataclass(frozen=True, slots=True)
class ModelConfig:
    architecture: str  # as GGUF calls it
    vocabulary: int
    context_length: int
    width: int  # of the residual stream
    head_width: int  # of queries and keys
    value_width: int
    layers: tuple[LayerConfig, ...]
    norm: Literal["rms", "layer"]
    norm_eps: float
    norm_bias: bool
    activation: Activation
    attention_scale: float
    attention_softcap: float  # 0: none
    final_softcap: float  # 0: none
    embedding_scale: float
    residual_scale: float  # of what a block adds to the residual stream
    logit_scale: float  # logits are multiplied by it
    tied: bool  # the head reads the embedding table
    query_bias: bool  # and key and value
    output_bias: bool  # of attention
    feed_forward_bias: bool
    head_norms: HeadNorms
    feed_forward_norm: bool  # one stands before it; else it may read what attention reads
    kernel: int  # taps of a short convolution; 0: none
    experts: ExpertsConfig | None = None
    latent: LatentConfig | None = None
    space: StateSpaceConfig | None = None
    wkv: WkvConfig | None = None
    gemma4: Gemma4Config | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """What an architecture takes for granted; declared beside its `layer`.

    `window_pattern` p > 0: every p-th layer sees everything, the others a window; 1: all see a
    window.
    """

    name: str
    layer: Callable[[GraphBuilder, ModelConfig, View, int], View]  # residual stream -> the next
    activation: Activation = "silu"
    norm: Literal["rms", "layer"] = "rms"
    norm_bias: bool = False
    rope_layout: Literal["halves", "pairs"] = "halves"
    has_attention: bool = True  # in some layer
    attention_period: int = 0  # p > 0: in every p-th layer, where files do not list them
    turns: bool = True  # queries and keys turn by rotary positions
    states_turning: bool = False  # files say whether they do
    still_period: int = 0  # in every so many-th layer they do not
    turns_in_windows: bool = False  # there alone, where there are windows
    grows_queries: bool = False  # with their positions, where files say so
    truncates_yarn: bool = True  # its ramp starts and ends at whole columns
    theta: float = 10000.0  # where the file does not say
    local_theta: float = 0.0  # of layers with a window; 0: the same as the others'
    scales_local: bool = True  # scaling of rotary positions holds in those layers too
    window: int = 0  # where the file does not say
    window_pattern: int = 0
    may_have_windows: bool = False  # where the file says so
    scales_embeddings: bool = False  # by sqrt(width)
    scales_residual: bool = False  # what a block adds to the stream, where the file says so
    divides_logits: bool = False  # `logit_scale` is a divisor
    query_bias: bool = False  # always there
    head_norms: HeadNorms = ""
    may_lack_head_norms: bool = False  # they are where the file has them
    attention_scale: float = 0.0  # where the file does not say; 0: head_width ** -0.5
    wide_scale_layers: int = 0  # GGUF with so many layers: scale = (width / heads) ** -0.5
    attention_softcap: float = 0.0  # where the file does not say
    final_softcap: float = 0.0  # where the file does not say
    routing: Routing | None = None  # of its experts, but for what the file says
    # Makes the tensors that `layer` reads of those that files hold, before they are checked.
    arrange: Callable[[Tensors], None] | None = None
    # Leaves out tensors that files may hold and nothing reads.
    trim: Callable[[Checkpoint], Checkpoint] | None = None
    has_own_inputs: bool = False  # as Gemma4Config says
    # The residual stream of tokens before the first layer; blocks.embed where there is none.
    embed: Callable[[GraphBuilder, ModelConfig], View] | None = None
