"""Recipes: which stored type each tensor of a model gets, by its GGUF name. Plain data.

Most matrices get a recipe's base type; the ones that quality depends on get more bits. Names, types
and layers are those of llama.cpp's recipes (`llama-quant.cpp`), so that a file is what its name
says elsewhere. Files are unknown here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyrite.quant.formats import FORMATS
from pyrite.records import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """What a recipe looks at."""

    num_layers: int
    attention_layers: tuple[int, ...]  # those with values of their own, ascending
    num_experts: int = 0
    query_groups: int = 1  # query heads that share a key head
    tied: bool = False  # the embedding is the head, too
    has_importance: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A matrix is the `index`-th of `count` of its kind."""

    index: int
    count: int
    model: Model


Where = Callable[[Place], bool]


def everywhere(place: Place) -> bool:
    return True


def more_bits(place: Place) -> bool:
    """The first and the last eighth, and every third between."""
    eighth = place.count // 8
    inside = place.index - eighth
    return inside < 0 or place.index >= 7 * place.count // 8 or inside % 3 == 2


def first_part(parts: int) -> Where:
    return lambda place: place.index < place.count // parts


def first(count: int) -> Where:
    return lambda place: place.index < count


def grouped(place: Place) -> bool:
    return place.model.query_groups >= 4


def eight_experts(place: Place) -> bool:
    return place.model.num_experts == 8


def wide_and_grouped(place: Place) -> bool:
    """Of 80 layers, with key heads that serve several queries: values are small, and cheap."""
    return place.model.num_layers == 80 and place.model.query_groups > 1


def early_with_importance(place: Place) -> bool:
    return place.model.has_importance and place.index < place.count // 8


def early_without_importance(place: Place) -> bool:
    return not place.model.has_importance and place.index < place.count // 8


@dataclass(frozen=True, slots=True)
class Rule:
    """Matrices whose name holds `part` get `type`, in the places where it applies."""

    part: str
    type: str
    where: Where = everywhere


@dataclass(frozen=True, slots=True)
class Recipe:
    """The first rule that applies wins; `file_type` is general.file_type of GGUF."""

    file_type: int
    base: str
    rules: tuple[Rule, ...] = ()


_EIGHT = (Rule("attn_v", "Q8_0", eight_experts), Rule("attn_k", "Q8_0", eight_experts))
_EIGHT_SMALL = (*_EIGHT, Rule("attn_output", "Q5_K", eight_experts))
_WIDE = Rule("attn_v", "Q5_K", wide_and_grouped)

RECIPES: Mapping[str, Recipe] = {
    "f32": Recipe(0, "F32"),
    "f16": Recipe(1, "F16"),
    "bf16": Recipe(32, "BF16"),
    "q8_0": Recipe(7, "Q8_0"),
    "q4_0": Recipe(2, "Q4_0", (*_EIGHT, Rule("ffn_down", "Q4_1", early_with_importance))),
    "q4_1": Recipe(3, "Q4_1", _EIGHT),
    "q5_0": Recipe(8, "Q5_0", (*_EIGHT, Rule("ffn_down", "Q5_1", early_with_importance))),
    "q5_1": Recipe(9, "Q5_1", _EIGHT),
    "q2_k": Recipe(
        10,
        "Q2_K",
        (
            *_EIGHT_SMALL,
            _WIDE,
            Rule("attn_v", "Q4_K", grouped),
            Rule("attn_v", "Q3_K"),
            Rule("ffn_down", "Q3_K"),
            Rule("attn_output", "Q3_K"),
        ),
    ),
    "q3_k_s": Recipe(11, "Q3_K", (*_EIGHT_SMALL, _WIDE)),
    "q3_k_m": Recipe(
        12,
        "Q3_K",
        (
            *_EIGHT_SMALL,
            _WIDE,
            Rule("attn_v", "Q5_K", first(2)),
            Rule("attn_v", "Q4_K"),
            Rule("ffn_down", "Q5_K", first_part(16)),
            Rule("ffn_down", "Q4_K"),
            Rule("attn_output", "Q4_K"),
            Rule("attn_qkv", "Q4_K"),
        ),
    ),
    "q3_k_l": Recipe(
        13,
        "Q3_K",
        (
            *_EIGHT,
            Rule("attn_v", "Q5_K"),
            Rule("ffn_down", "Q5_K"),
            Rule("attn_output", "Q5_K"),
            Rule("attn_qkv", "Q4_K"),
        ),
    ),
    "q4_k_s": Recipe(
        14,
        "Q4_K",
        (
            *_EIGHT_SMALL,
            _WIDE,
            Rule("attn_v", "Q5_K", first(4)),
            Rule("ffn_down", "Q5_K", first_part(8)),
        ),
    ),
    "q4_k_m": Recipe(
        15,
        "Q4_K",
        (
            *_EIGHT_SMALL,
            Rule("attn_v", "Q6_K", more_bits),
            _WIDE,
            Rule("ffn_down", "Q6_K", more_bits),
            Rule("attn_qkv", "Q5_K"),
        ),
    ),
    "q5_k_s": Recipe(16, "Q5_K", _EIGHT),
    "q5_k_m": Recipe(
        17,
        "Q5_K",
        (
            *_EIGHT,
            Rule("attn_v", "Q6_K", more_bits),
            Rule("ffn_down", "Q6_K", more_bits),
            Rule("attn_qkv", "Q6_K"),
        ),
    ),
    "q6_k": Recipe(18, "Q6_K", _EIGHT),
    "iq4_nl": Recipe(
        25,
        "IQ4_NL",
        (
            *_EIGHT_SMALL,
            Rule("attn_v", "Q5_K", grouped),
            Rule("ffn_down", "Q5_K", early_without_importance),
        ),
    ),
    "iq4_xs": Recipe(
        30,
        "IQ4_XS",
        (
            *_EIGHT_SMALL,
            Rule("attn_v", "Q5_K", grouped),
            Rule("ffn_down", "Q5_K", early_without_importance),
        ),
    ),
}

PLAIN = ("F32", "F16", "BF16")
EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")
# For columns that no superblock of 256 fits into.
NARROWER = {
    "Q2_K": "IQ4_NL",
    "Q3_K": "IQ4_NL",
    "IQ4_XS": "IQ4_NL",
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
# Small matrices that decide much: routers, states, convolutions, tables of positions.
_KEPT = re.compile(
    r"_norm\.weight$|ffn_gate_inp|altup|laurel|per_layer_model_proj|position_embd|token_types"
    r"|ssm_conv1d|shortconv\.conv|attn_rel_b"
    r"|time_mix_(first|lerp|w0|w1|w2|v0|v1|v2|a0|a1|a2|g1|g2)"
)
_LAYER = re.compile(r"blk\.(\d+)\.")
_VALUES = re.compile(r"blk\.(\d+)\.attn_(v|qkv|kv_b)\.weight$")


def attention_layers(names: list[str]) -> tuple[int, ...]:
    """Layers whose attention has values of its own."""
    return tuple(sorted({int(found[1]) for name in names if (found := _VALUES.match(name))}))


def is_quantized(name: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is a matrix that recipes give a type; all others stay as they are."""
    is_matrix = len([extent for extent in shape[:-1] if extent > 1]) > 0
    return is_matrix and name.endswith(".weight") and _KEPT.search(name) is None


def type_of(name: str, columns: int, recipe: Recipe, model: Model) -> str:
    """The type of a matrix that `is_quantized`."""
    return fitting(_wanted(name, columns, recipe, model), columns)


def fitting(kind: str, columns: int) -> str:
    """`kind`, or the one to take instead where its blocks do not fill rows of so many columns."""
    if columns % FORMATS[kind].block_columns == 0:
        return kind
    narrower = NARROWER.get(kind, "F16")
    return narrower if columns % FORMATS[narrower].block_columns == 0 else "F16"


def _wanted(name: str, columns: int, recipe: Recipe, model: Model) -> str:
    if recipe.base in PLAIN:
        return recipe.base
    if name == "output.weight" or (model.tied and name in EMBEDDINGS):
        whole = columns % FORMATS[recipe.base].block_columns == 0
        return "Q6_K" if whole and recipe.base != "Q8_0" else "Q8_0"
    for rule in recipe.rules:
        if _holds(name, rule.part) and rule.where(_place(name, rule.part, model)):
            return rule.type
    return recipe.base


def _holds(name: str, part: str) -> bool:
    """Parts of attention are whole words; those of a feed-forward block go on: ffn_down_exps."""
    return f".{part}" in name if part.startswith("ffn") else f".{part}.weight" in name


def _place(name: str, part: str, model: Model) -> Place:
    found = _LAYER.match(name)
    layer = int(found[1]) if found else 0
    if part == "attn_v" and layer in model.attention_layers:
        layers = model.attention_layers
        return Place(layers.index(layer), len(layers), model)
    return Place(layer, model.num_layers, model)
