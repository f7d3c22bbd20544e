"""From a Hugging Face folder to what a GGUF file of the same model holds: keys, names, layouts.

Architectures then know GGUF's convention alone, and a converter has nothing left to do. A family's
row says which of its names are which of GGUF's; what else differs (rows in another order, norms
that lack a one) its `translate` changes. Every key of config.json is accounted for. Nothing is read
of the weights here.

Source of the GGUF names: the GGUF specification.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pyrite.errors import FormatError, TensorError
from pyrite.formats import derived
from pyrite.formats.checkpoint import POOLING, Checkpoint, Tensor
from pyrite.models import config as limits
from pyrite.models.arrange import Tensors
from pyrite.models.fields import Fields
from pyrite.models.origins import Origins
from pyrite.models.wrapped import text_model
from pyrite.records import dataclass

TOP = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}

ATTENTION = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}

HEAD_NORMS = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}

FEED_FORWARD = {
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

PRE_NORMS = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}

# `*` stands for the number of an expert: the tensors of all make one.
EXPERTS = {
    "mlp.experts.*.gate_proj": "ffn_gate_exps",
    "mlp.experts.*.up_proj": "ffn_up_exps",
    "mlp.experts.*.down_proj": "ffn_down_exps",
    "mlp.gate": "ffn_gate_inp",
}

PRE_NORM = ATTENTION | FEED_FORWARD | PRE_NORMS

POOLINGS = {"mean": 1, "cls": 2, "last": 3}  # pooling_type of GGUF

LAYER = re.compile(
    r"(?P<before>(?:[a-z_]+\.)*)(?:layers|h|blocks)\.(?P<layer>\d{1,5})\.(?P<rest>.+)"
)
EXPERT = re.compile(r"\.(\d{1,5})\.")
OUTER = "language_model."  # of a text model that lies in a larger one

# Buffers that old checkpoints saved although they follow from the configuration.
DERIVED = re.compile(r".*\.rotary_emb\.inv_freq|.*\.(attn|attention|self_attn)\.(masked_)?bias")

# Keys that say nothing about the mathematics of one token after another.
# fmt: off
HARMLESS = frozenset(
    (
        "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures",
        "attention_dropout", "attn_pdrop", "auto_map", "aux_loss_alpha", "begin_suppress_tokens",
        "bos_token_id", "cache_implementation", "chunk_size_feed_forward", "decoder_start_token_id",
        "dtype", "embd_pdrop", "eos_token_id", "ep_size", "finetuning_task", "generation_config",
        "gradient_checkpointing", "hidden_dropout", "id2label", "initializer_range", "is_decoder",
        "is_llama_config", "label2id", "model_type", "num_return_sequences", "output_attentions",
        "output_hidden_states", "output_router_logits", "pad_token_id", "prefix", "pretraining_tp",
        "problem_type", "resid_pdrop", "return_dict", "router_aux_loss_coef", "router_jitter_noise",
        "sep_token_id", "seq_aux", "summary_activation", "summary_first_dropout",
        "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params",
        "tf_legacy_loss", "tokenizer_class", "torch_dtype", "torchscript", "transformers.js_config",
        "transformers_version", "unk_token_id", "unsloth_fixed", "unsloth_version",
        "use_associative_scan", "use_bfloat16", "use_cache",
    )
)
# fmt: on


class Folder:
    """One folder on its way: `keys` of config.json are read, `put` states them as GGUF does."""

    def __init__(self, checkpoint: Checkpoint, hub: Hub) -> None:
        self.origins = Origins()
        values = {**hub.defaults, **checkpoint.metadata}
        self.keys = Fields(values, names=hub.aliases, told=self.origins.read)
        self.architecture = hub.architecture
        self.metadata: dict[str, Any] = {"general.architecture": hub.architecture}
        # GGUF files need none of it
        from pyrite.formats.prequantized import SETTINGS, read_quantized

        whole = read_quantized(checkpoint.tensors, checkpoint.metadata)
        for key in SETTINGS:
            self.keys.get(key)
        self.tensors = Tensors(_renamed(whole, hub))
        self.num_layers = self.keys.integer("num_hidden_layers", 1, limits.MAX_LAYERS)

    def put(self, key: str, value: Any, of: str = "") -> None:
        """Fractions as GGUF keeps them: in 32 bits. `of`: the keys that it is made of, where it has
        not the value of one that was read just before (`origins`)."""
        name = f"{self.architecture}.{key}"
        self.origins.put(name, value, self.keys.called(of) if of else "")
        self.metadata[name] = float(np.float32(value)) if isinstance(value, float) else value

    def stated(self, key: str) -> Any:
        """What was put before."""
        return self.metadata[f"{self.architecture}.{key}"]

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.metadata

    def change(self, suffix: str, change: Callable[[Tensor], Tensor]) -> None:
        """Of every layer: `suffix` is the name after `blk.N.`."""
        for layer in self.tensors.layers():
            self.tensors.change(layer + suffix, change)


@dataclass(frozen=True, slots=True)
class Hub:
    """How folders of one `model_type` become models of GGUF's `architecture`.

    `top` and `layer` map names of modules, or whole names, to GGUF's. `translate` reads the keys
    (hub_config has what most need) and changes tensors.
    """

    architecture: str
    translate: Callable[[Folder], None]
    layer: Mapping[str, str]
    top: Mapping[str, str]
    aliases: Mapping[str, str]  # the key that is read -> what this model calls it
    defaults: Mapping[str, Any]  # of keys that config.json leaves out
    is_wrapped: bool  # config.json describes more than text


def hub(
    architecture: str,
    translate: Callable[[Folder], None],
    layer: Mapping[str, str] = PRE_NORM,
    top: Mapping[str, str] = TOP,
    aliases: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
    is_wrapped: bool = False,
) -> Hub:
    return Hub(architecture, translate, layer, top, aliases or {}, defaults or {}, is_wrapped)


def translated(checkpoint: Checkpoint, row: Hub) -> Checkpoint:
    """Raises FormatError, TensorError, UnsupportedError that name the key or the tensor."""
    config = checkpoint.metadata
    if row.is_wrapped:
        checkpoint = text_model(checkpoint, HARMLESS)
    folder = Folder(checkpoint, row)
    if (pooling := folder.keys.get(POOLING)) is not None:
        folder.put("pooling_type", POOLINGS[pooling])
    row.translate(folder)
    folder.keys.refuse_unread("config.json", HARMLESS)
    return replace(
        checkpoint,
        architecture=row.architecture,
        metadata=folder.metadata,
        config=config,
        origins=folder.origins.found,
        tensors=folder.tensors.all,
    )


def _renamed(tensors: Mapping[str, Tensor], row: Hub) -> dict[str, Tensor]:
    """GGUF's names, or a tensor's own where the row has none: loading finds it left over."""
    found: dict[str, Tensor] = {}
    stacks: dict[str, dict[int, Tensor]] = defaultdict(dict)
    for tensor in tensors.values():
        if DERIVED.fullmatch(tensor.name):
            continue
        name, expert = gguf_name(tensor.name, row)
        if expert is not None:
            stacks[name][expert] = tensor
        elif name in found:
            raise FormatError(f"tensor {tensor.name} occurs twice, as {name}")
        else:
            found[name] = replace(tensor, name=name)
    for name, parts in stacks.items():
        found[name] = _stack(name, parts)
    return found


def _stack(name: str, parts: Mapping[int, Tensor]) -> Tensor:
    missing = sorted(set(range(len(parts))) - parts.keys())
    if missing:
        raise TensorError(f"{name}: of {len(parts)} experts number {missing[0]} is missing")
    return derived.stacked(name, [parts[index] for index in range(len(parts))])


def gguf_name(name: str, row: Hub) -> tuple[str, int | None]:
    """The GGUF name of a tensor, and its expert's number where several make one tensor."""
    inner = name.replace(OUTER, "", 1)
    match = LAYER.fullmatch(inner)
    if match is None:
        return _mapped(inner, row.top) or _mapped("model." + inner, row.top) or name, None
    before = f"blk.{int(match['layer'])}."
    rest = match["rest"]
    if mapped := _mapped(rest, row.layer):
        return before + mapped, None
    number = EXPERT.search(rest)
    if number and (mapped := _mapped(EXPERT.sub(".*.", rest, count=1), row.layer)):
        return before + mapped, int(number[1])
    return name, None


def _mapped(name: str, table: Mapping[str, str]) -> str | None:
    """A whole name's, or a module's with the kind of the tensor after it."""
    if name in table:
        return table[name]
    module, _, kind = name.rpartition(".")
    return f"{table[module]}.{kind}" if module in table and kind in ("weight", "bias") else None
