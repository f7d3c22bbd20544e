"""Adapters (LoRA): small matrices beside a model's, for requests that ask for them.

Of a GGUF file, or of a folder as PEFT writes it. Names and layouts become those of the model's own
tensors, so a folder's adapter goes through the same translation as the model's folder. A model with
adapters has their tensors beside its own (`with_adapters`); graphs and plans follow from these.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyrite.errors import FormatError, ParameterError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.formats.folder import optional_json, weight_files
from pyrite.formats.safetensors import read_safetensors, tensors_of
from pyrite.graph.build import down_name, up_name
from pyrite.models.fields import Fields
from pyrite.models.registry import arranged, as_gguf
from pyrite.records import dataclass

CONFIG = "adapter_config.json"
MAX_ADAPTERS = 64
MAX_RANK = 1 << 12
NAME = re.compile(r"[\w.:/-]{1,128}")

# PEFT puts the model below these names, and its matrices below the module's.
_PEFT = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<side>[AB])(?:\.\w+)?\.weight")
_GGUF = re.compile(r"(?P<weight>.+\.weight)\.lora_(?P<side>[ab])")

# Keys of adapter_config.json that matter in training alone, or say where something is.
HARMLESS = frozenset(
    {
        "auto_mapping",
        "base_model_name_or_path",
        "base_model_class",
        "inference_mode",
        "init_lora_weights",
        "lora_dropout",
        "parent_library",
        "peft_version",
        "revision",
        "runtime_config",
        "target_modules",
        "task_type",
    }
)


@dataclass(frozen=True, slots=True)
class Adapter:
    """`pairs`: by the name of the weight that they adapt, (rank, columns) and (rows, rank).

    The second includes the adapter's scale. `fingerprint` is of all that they hold.
    """

    name: str
    path: Path
    pairs: Mapping[str, tuple[Tensor, Tensor]]
    fingerprint: str


def read_adapters(settings: Sequence[str], path: Path) -> tuple[Adapter, ...]:
    """Of "NAME=PATH" or "PATH" each, for the model at `path`.

    Raises ParameterError, FormatError, TensorError, UnsupportedError, ModelNotFoundError.
    """
    if len(settings) > MAX_ADAPTERS:
        raise ParameterError("lora", len(settings), f"at most {MAX_ADAPTERS} adapters")
    base = open_checkpoint(path) if settings else None
    found: dict[str, Adapter] = {}
    for setting in settings:
        name, place = named(setting)
        if name in found:
            raise ParameterError("lora", setting, "the only adapter of its name")
        assert base is not None
        found[name] = read_adapter(name, place, base)
    return tuple(found.values())


def named(setting: str) -> tuple[str, Path]:
    """The name is what stands before "=", or the file's without its ending."""
    name, equals, place = setting.partition("=")
    path = Path(place if equals else name).expanduser()
    name = name if equals else path.stem
    if not NAME.fullmatch(name):
        raise ParameterError("lora", setting, "NAME=PATH with a name of letters, digits and ._:/-")
    return name, path


def read_adapter(name: str, path: Path, base: Checkpoint) -> Adapter:
    """`base` as it was opened, before it was translated."""
    if path.is_dir():
        pairs = _of_folder(path, base)
    else:
        pairs = _of_gguf(open_checkpoint(path), as_gguf(base))
    if not pairs:
        raise FormatError(f"{path} holds no adapter", hint="its tensors end in lora_a and lora_b")
    for weight, (down, up) in pairs.items():
        rank = down.shape[0] if len(down.shape) == 2 else 0
        if not 1 <= rank <= MAX_RANK or len(up.shape) != 2 or up.shape[1] != rank:
            raise TensorError(f"{path.name}: {weight} has {down.shape} and {up.shape}")
    return Adapter(name, path, pairs, _fingerprint(pairs))


def with_adapters(model: Checkpoint, adapters: Sequence[Adapter]) -> Checkpoint:
    """The model with the tensors of its adapters, which are numbered in their order."""
    tensors = dict(model.tensors)
    for index, adapter in enumerate(adapters):
        for weight, (down, up) in adapter.pairs.items():
            for name, tensor in ((down_name(weight, index), down), (up_name(weight, index), up)):
                tensors[name] = replace(tensor, name=name)
    return replace(model, tensors=tensors)


def _of_gguf(file: Checkpoint, base: Checkpoint) -> dict[str, tuple[Tensor, Tensor]]:
    kind, sort = file.metadata.get("general.type"), file.metadata.get("adapter.type")
    if kind != "adapter" or sort != "lora":
        raise FormatError(f"{file.path.name} is no LoRA adapter: general.type is {kind!r}")
    if file.architecture != base.architecture:
        problem = f"{file.path.name} is of architecture {file.architecture}"
        raise UnsupportedError(f"{problem}, and the model of {base.architecture}")
    keys = Fields(file.metadata, prefix="adapter.lora.")
    alpha = keys.number("alpha", 0.0, 1e9)
    sides = _sides((_GGUF.fullmatch(name), tensor) for name, tensor in file.tensors.items())
    pairs = {
        weight: (down, _scaled(up, alpha / down.shape[0])) for weight, (down, up) in sides.items()
    }
    return _matched(arranged(_swapped(base, pairs)), pairs)


def _of_folder(folder: Path, base: Checkpoint) -> dict[str, tuple[Tensor, Tensor]]:
    if base.format == "gguf":
        raise UnsupportedError(
            f"{folder.name} adapts a folder's model, and {base.path.name} is a GGUF file",
            hint="load the model from its folder, or take the adapter as a GGUF file",
        )
    config = optional_json(folder, CONFIG)
    if config is None:
        raise FormatError(f"{folder} has no {CONFIG}", hint="give a folder that PEFT wrote")
    paths, _ = weight_files(folder)
    tensors = tensors_of([read_safetensors(path) for path in paths])
    matches = ((_PEFT.fullmatch(name), tensor) for name, tensor in tensors.items())
    sides = _sides(matches, lambda module: module + ".weight")
    keys = Fields(config)
    if keys.text("peft_type", "LORA") != "LORA":
        raise UnsupportedError(
            f"{CONFIG}: peft_type = {keys.text('peft_type')[:40]!r}: LORA is read"
        )
    scaled = {
        weight: (down, _scaled(up, _scale(keys, weight, down.shape[0])))
        for weight, (down, up) in sides.items()
    }
    _refuse_kinds(keys)
    keys.refuse_unread(CONFIG, HARMLESS)
    return _matched(arranged(as_gguf(_swapped(base, scaled))), scaled)


def _refuse_kinds(keys: Fields) -> None:
    """Other mathematics than that of `Adapt`."""
    if keys.text("bias", "none") != "none":
        raise UnsupportedError(f"{CONFIG}: bias = {keys.text('bias')!r}: biases are not adapted")
    for key in ("use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"):
        if keys.boolean(key, False):
            raise UnsupportedError(f"{CONFIG}: {key} = true is not executed here")
    for key in ("modules_to_save", "layers_to_transform", "trainable_token_indices", "alora"):
        if keys.get(key):
            raise UnsupportedError(f"{CONFIG} sets {key}, which is not executed here")


def _scale(keys: Fields, weight: str, rank: int) -> float:
    """alpha / rank, or by its square root; alpha may be a module's own."""
    module = weight.removesuffix(".weight")
    stated = _own(keys, "rank_pattern", module, keys.integer("r", 1, MAX_RANK, rank))
    if stated != rank:
        raise TensorError(f"{CONFIG} gives {module} rank {stated:g}, and its tensors have {rank}")
    alpha = _own(keys, "alpha_pattern", module, keys.number("lora_alpha", 0.0, 1e9, float(rank)))
    return alpha / (rank**0.5 if keys.boolean("use_rslora", False) else rank)


def _own(keys: Fields, key: str, module: str, default: float) -> float:
    """A module's own number, by the pattern that its name ends in."""
    group = keys.group(key)
    for pattern in group.values if group is not None else ():
        if re.search(rf"(^|\.){re.escape(pattern)}$", module) and group is not None:
            return group.number(pattern, 0.0, 1e9)
    return default


def _sides(matches: Any, weight_of: Any = lambda name: name) -> dict[str, tuple[Tensor, Tensor]]:
    found: dict[str, dict[str, Tensor]] = {}
    for match, tensor in matches:
        if match is None:
            raise TensorError(f"tensor {tensor.name} is no part of a LoRA adapter")
        weight = weight_of(match[1])
        found.setdefault(weight, {})[match["side"].lower()] = tensor
    for weight, sides in found.items():
        if sides.keys() != {"a", "b"}:
            raise TensorError(f"the adapter has one of two matrices for {weight}")
    return {weight: (sides["a"], sides["b"]) for weight, sides in found.items()}


def _scaled(up: Tensor, scale: float) -> Tensor:
    if len(up.shape) != 2:
        raise TensorError(f"{up.name} is {up.shape}: a matrix is needed")
    return derived.computed(up, lambda values, _: values * scale, f"times {scale!r}")


def _swapped(base: Checkpoint, pairs: Mapping[str, tuple[Tensor, Tensor]]) -> Checkpoint:
    """Each second matrix takes its weight's place in the file, for rows are what translation
    moves; each first one follows the weight by its columns, which stay."""
    for weight, (_, up) in pairs.items():
        if weight not in base.tensors:
            raise TensorError(f"the adapter is for {weight}, which the model has not")
        if base.tensors[weight].shape[0] != up.shape[0]:
            raise TensorError(f"the adapter has {up.shape[0]} rows for {weight}")
    ups = {weight: replace(up, name=weight) for weight, (_, up) in pairs.items()}
    return replace(base, tensors={**base.tensors, **ups})


def _matched(
    model: Checkpoint, pairs: Mapping[str, tuple[Tensor, Tensor]]
) -> dict[str, tuple[Tensor, Tensor]]:
    """What became of each second matrix, by what it was made of; all must have become one."""
    of = {_place(up): down for down, up in pairs.values()}
    found = {
        name: (of[_place(tensor)], tensor)
        for name, tensor in model.tensors.items()
        if _place(tensor) in of and tensor.shape[-1] == of[_place(tensor)].shape[0]
    }
    used = {_place(up) for _, up in found.values()}
    for weight, (_, up) in pairs.items():
        if _place(up) not in used:
            raise UnsupportedError(f"{weight} cannot be adapted: it is not a projection of its own")
    return found


def _place(tensor: Tensor) -> tuple[int, int]:
    """Where its bytes lie in memory: what it is made of."""
    address: int = tensor.data.__array_interface__["data"][0]
    return address, tensor.data.nbytes


def _fingerprint(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for weight, tensors in sorted(pairs.items()):
        for tensor in tensors:
            digest.update(f"{weight} {tensor.type} {tensor.shape}\n".encode())
            digest.update(tensor.read().tobytes())
    return digest.hexdigest()
