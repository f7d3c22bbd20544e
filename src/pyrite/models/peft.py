"""An adapter as PEFT writes it: adapter_config.json, and matrices named after a model's modules.

Gives its pairs by the names of the folder's weights, each with its scale. Settings under which
other mathematics would be computed are errors; which model it is for is unknown here.

Source: the `peft` library: the fields of LoraConfig, and the names that it saves tensors under.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.folder import inside, optional_json, weight_files
from pyrite.formats.safetensors import read_safetensors, tensors_of
from pyrite.models.fields import Fields
from pyrite.models.lora import MAX_RANK, Pair
from pyrite.models.peft_parameters import by_experts, split
from pyrite.models.peft_targets import Targets, read_targets
from pyrite.models.peft_tensors import MERGE, read_modules

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

# A module's name, or the end of one; a regular expression may say more than that.
PATTERN = re.compile(r"(?:\^?|\.\*\\?\.)(?:\w|\\?\.)+\$?")

# Keys that matter in training alone, or that the tensors show by themselves.
# fmt: off
HARMLESS = frozenset(
    (
        "auto_mapping", "base_model_class", "base_model_name_or_path", "corda_config",
        "ensure_weight_tying", "eva_config", "inference_mode", "loftq_config", "lora_dropout",
        "lora_ga_config", "megatron_config", "megatron_core", "parent_library", "peft_version",
        "qalora_group_size", "revision", "runtime_config", "task_type", "unsloth_fixed",
    )
)
# fmt: on

# Other mathematics than that of two matrices, by the key that switches it on.
OTHER = {
    "use_dora": "DoRA's magnitudes",
    "use_qalora": "QA-LoRA's pooled inputs",
    "lora_bias": "biases of the second matrices",
    "fan_in_fan_out": "weights that the model stores transposed",
    "modules_to_save": "whole modules beside the matrices",
    "trainable_token_indices": "rows of the embedding table",
    "layer_replication": "a stack of repeated layers",
    "alora_invocation_tokens": "an adapter that begins at a token",
    "alora": "an adapter that begins at a token",
    "arrow_config": "a routing between adapters",
    "use_bdlora": "matrices of blocks",
}
# How matrices may begin without any change to the model's own weights.
PLAIN_STARTS = ("true", "false", "gaussian", "eva", "mica", "orthogonal")


def read_config(folder: Path) -> Fields:
    """Raises FormatError, UnsupportedError for what is no LoRA adapter as it is executed here."""
    config = optional_json(folder, CONFIG)
    if config is None:
        raise FormatError(f"{folder} has no {CONFIG}", hint="give a folder that PEFT wrote")
    keys = Fields(config)
    kind = keys.text("peft_type", "LORA")
    if kind != "LORA":
        raise UnsupportedError(f"{CONFIG}: peft_type = {kind[:40]!r}: LORA is read", hint=MERGE)
    for key, meaning in OTHER.items():
        if keys.get(key):
            raise UnsupportedError(f"{CONFIG} sets {key}: {meaning}: not executed here", hint=MERGE)
    start = str(keys.get("init_lora_weights"))
    if start != "None" and start.lower() not in PLAIN_STARTS:
        raise UnsupportedError(
            f"{CONFIG}: init_lora_weights = {start[:40]!r} changes the weights of the model itself",
            hint="save the adapter as one of the original model "
            "(save_pretrained with path_initial_model_for_weight_conversion)",
        )
    return keys


def base_name(folder: Path) -> str:
    """What the adapter says it is for, a path or a name at the hub; empty where it says nothing."""
    named = (optional_json(folder, CONFIG) or {}).get("base_model_name_or_path")
    return named if isinstance(named, str) else ""


def read_peft(folder: Path) -> tuple[dict[str, Pair], Targets]:
    """By the names of a folder's weights, as the adapter has them, and what it says of them.

    Raises FormatError, TensorError, UnsupportedError.
    """
    keys = read_config(folder)
    scales, targets = Scales(keys), read_targets(keys)
    keys.refuse_unread(CONFIG, HARMLESS)
    names = targets.parameters
    pairs, parameters = split(read_modules(_tensors(folder), has_stacks=bool(names)), names)
    targets.check_named(pairs)
    scaled = {
        f"{module}.weight": replace(pair, scale=scales.of(module, pair.rank))
        for module, pair in pairs.items()
    }
    for name, pair in parameters.items():
        own = by_experts(name, pair, scales.rank_of(name))
        scaled[name] = replace(own, scale=scales.of(name, own.rank))
    return scaled, targets


def _tensors(folder: Path) -> Iterable[Tensor]:
    single = inside(folder, WEIGHTS)
    paths = (single,) if single.is_file() else weight_files(folder)[0]
    return tensors_of([read_safetensors(path) for path in paths]).values()


class Scales:
    """alpha / rank of each module, or alpha by its square root; either may be a module's own."""

    def __init__(self, keys: Fields) -> None:
        self._rank = keys.integer("r", 1, MAX_RANK)
        self._alpha = keys.number("lora_alpha", 0.0, 1e9)
        self._by_root = keys.boolean("use_rslora", False)
        self._ranks = _patterns(keys, "rank_pattern")
        self._alphas = _patterns(keys, "alpha_pattern")

    def rank_of(self, module: str) -> int:
        """Raises FormatError for one that is none."""
        stated = _own(self._ranks, module, self._rank)
        if not (1 <= stated <= MAX_RANK and stated == int(stated)):
            raise FormatError(f"{CONFIG}: rank_pattern has {stated:g}: a rank is 1 to {MAX_RANK}")
        return int(stated)

    def of(self, module: str, rank: int) -> float:
        """Raises TensorError where the matrices have another rank than the module is to have."""
        stated = _own(self._ranks, module, self._rank)
        if stated != rank:
            says = "r" if stated == self._rank else "rank_pattern"
            raise TensorError(
                f"the matrices for {module} have rank {rank}, and {CONFIG} says {says} = "
                f"{stated:g}",
                hint="configuration and matrices are of different adapters: save it again",
            )
        alpha = _own(self._alphas, module, self._alpha)
        return alpha / (rank**0.5 if self._by_root else rank)


def _patterns(keys: Fields, key: str) -> dict[str, float]:
    group = keys.group(key)
    found: dict[str, float] = {}
    for pattern in group.values if group is not None else ():
        assert group is not None
        if not PATTERN.fullmatch(pattern):
            raise UnsupportedError(
                f"{CONFIG}: {key} has the regular expression {pattern[:60]!r}",
                hint="names of modules and their ends are read; write these, one for each module",
            )
        found[pattern] = group.number(pattern, 0.0, 1e9)
    return found


def _own(numbers: dict[str, float], module: str, default: float) -> float:
    """The first whose name the module has, or ends in; with `^` it must be the whole name, and
    with `.*\\.`, which PEFT writes of what newer models join, it is an end."""
    for pattern, number in numbers.items():
        name = pattern.removeprefix("^").removesuffix("$").replace("\\.", ".").removeprefix(".*.")
        if module == name or (pattern[0] != "^" and module.endswith("." + name)):
            return number
    return default


def is_adapter(folder: Path) -> bool:
    """An adapter's configuration lies there."""
    return (folder / CONFIG).is_file()
