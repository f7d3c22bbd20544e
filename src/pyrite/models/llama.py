"""Llama (1 to 3), and what shares its layers: SmolLM2, TinyLlama, Yi, Mistral, Ministral, Mixtral.

In Ministral 3 queries grow where the context is longer than the original one.

Source: arXiv 2302.13971, 2407.21783, 2310.06825, 2401.04088.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pyrite.errors import TensorError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.ops import Routing
from pyrite.graph.values import View
from pyrite.models import blocks, hub_config
from pyrite.models.config import Family, ModelConfig
from pyrite.models.hub import ATTENTION, PRE_NORMS, Folder, hub


def layer(
    graph: GraphBuilder, config: ModelConfig, x: View, index: int, second_norm: str = "ffn_norm"
) -> View:
    """Norms before attention and feed-forward; each adds to the residual stream."""
    normed = blocks.norm(graph, config, x, f"blk.{index}.attn_norm")
    x = blocks.add(graph, config, x, blocks.attention(graph, config, normed, index))
    normed = blocks.norm(graph, config, x, f"blk.{index}.{second_norm}")
    return blocks.add(graph, config, x, blocks.feed_forward(graph, config, normed, index))


# GGUF's converter permutes q and k rows so that pairs of neighbours turn together.
LLAMA = Family(
    name="llama",
    layer=layer,
    rope_layout="pairs",
    may_have_windows=True,
    routing=Routing(1),
)
MISTRAL3 = replace(LLAMA, name="mistral3", grows_queries=True)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder)
    hub_config.biases(folder)
    pair_neighbours(folder)


def translate_mistral(folder: Folder) -> None:
    translate(folder)
    hub_config.windows(folder)


def translate_mixtral(folder: Folder) -> None:
    translate_mistral(folder)
    hub_config.experts(folder, count="num_local_experts", width=None, normalized=None)


def pair_neighbours(folder: Folder) -> None:
    """From rows whose halves turn together to rows whose neighbours do, in each head."""
    width = folder.stated("attention.key_length")
    for kind in ("weight", "bias"):
        for part in ("q", "k"):
            folder.change(f"attn_{part}.{kind}", lambda tensor: paired_rows(tensor, width))


def paired_rows(tensor: Tensor, width: int) -> Tensor:
    """`width`: rows of a head."""
    if tensor.shape[0] % width:
        raise TensorError(f"{tensor.name} is {tensor.shape}: heads are of {width} rows")
    order = np.arange(tensor.shape[0]).reshape(-1, 2, width // 2).transpose(0, 2, 1)
    return derived.picked_rows(tensor, order.reshape(-1))


MIXTRAL_EXPERTS = {
    "block_sparse_moe.experts.*.w1": "ffn_gate_exps",
    "block_sparse_moe.experts.*.w2": "ffn_down_exps",
    "block_sparse_moe.experts.*.w3": "ffn_up_exps",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "mlp.gate": "ffn_gate_inp",  # to newer versions of transformers, and so to adapters
}

# Where config.json says nothing of them; a null switches the window off.
_MISTRAL = {"sliding_window": 4096}
_MIXTRAL = {"rms_norm_eps": 1e-5, "rope_theta": 1e6}

HUBS = {
    "llama": hub("llama", translate),
    "ministral3": hub("mistral3", translate_mistral),
    "mistral": hub("llama", translate_mistral, defaults=_MISTRAL),
    "mistral3": hub("mistral3", translate_mistral, defaults=_MISTRAL, is_wrapped=True),
    "mixtral": hub(
        "llama",
        translate_mixtral,
        ATTENTION | PRE_NORMS | MIXTRAL_EXPERTS,
        defaults=_MIXTRAL,
    ),
}

FAMILIES = {family.name: family for family in (LLAMA, MISTRAL3)}
