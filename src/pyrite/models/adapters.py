"""Adapters (LoRA): small matrices beside a model's, for requests that ask for them.

Of a GGUF file, or of a folder as PEFT writes it. Names and layouts become those of the model's own
tensors, so a folder's adapter goes through the same translation as the model's folder. A model with
adapters has their tensors beside its own (`with_adapters`); graphs and plans follow from these.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyrite.errors import (
    FormatError,
    ModelError,
    ModelNotFoundError,
    ParameterError,
    TensorError,
    UnsupportedError,
)
from pyrite.formats import derived
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.formats.prequantized import SETTINGS, read_quantized
from pyrite.graph.build import down_name, up_name
from pyrite.models.fields import Fields
from pyrite.models.hub import Hub, gguf_name
from pyrite.models.lora import SEVERAL, Pair, paired
from pyrite.models.peft import read_peft
from pyrite.models.peft_names import as_file_has, names_in_folder
from pyrite.models.registry import arranged, as_gguf, as_model, find_hub
from pyrite.records import dataclass

MAX_ADAPTERS = 64
NAME = re.compile(r"[\w.:/-]{1,128}")
MATRIX = re.compile(r"(?P<weight>.+\.weight)\.lora_(?P<side>[ab])")  # of a GGUF file
UNTOLD = frozenset({"lora.task_name", "lora.prompt_prefix"})  # keys that say nothing of products
ANOTHER = "the adapter was made for another model"

Translation = Callable[[Checkpoint], Checkpoint]


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
    with errors_of(path):
        pairs = _pairs_of(path, base, as_model)
        scaled = {weight: (pair.down, pair.scaled_up()) for weight, pair in pairs.items()}
        return Adapter(name, path, scaled, _fingerprint(scaled))


def pairs_in_file(folder: Path, base: Checkpoint) -> dict[str, Pair]:
    """A folder's pairs by the names, and in the layouts, of the GGUF file of its model."""
    with errors_of(folder):
        return _pairs_of(folder, base, as_gguf)


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """What is wrong with an adapter is said of the adapter, and not of the model."""
    try:
        yield
    except ModelNotFoundError:
        raise
    except ModelError as error:
        raise type(error)(f"adapter {path}: {error.message}", hint=error.hint) from None


def with_adapters(model: Checkpoint, adapters: Sequence[Adapter]) -> Checkpoint:
    """The model with the tensors of its adapters, which are numbered in their order."""
    tensors = dict(model.tensors)
    for index, adapter in enumerate(adapters):
        for weight, (down, up) in adapter.pairs.items():
            for name, tensor in ((down_name(weight, index), down), (up_name(weight, index), up)):
                tensors[name] = replace(tensor, name=name)
    return replace(model, tensors=tensors)


def _pairs_of(path: Path, base: Checkpoint, translation: Translation) -> dict[str, Pair]:
    """As the model has its weights after `translation`, which is of what was opened."""
    row = targets = None
    if path.is_dir():
        (pairs, targets), base = read_peft(path), _unpacked(base)
        like = next(iter(pairs), "")
        if base.format == "gguf":
            pairs = as_file_has(base, pairs)
        else:
            row = find_hub(base.architecture)
    else:
        base = as_gguf(base)
        pairs = _of_gguf(open_checkpoint(path), base)
        translation = arranged
    if not pairs:
        raise FormatError("it holds no matrices", hint="their names end in lora_a and lora_b")
    names = own_names(base, pairs, row)
    if len(set(names.values())) < len(pairs):
        raise FormatError(SEVERAL)
    pairs = {names[weight]: pair for weight, pair in pairs.items()}
    if targets is not None:
        targets.check_whole(_folder_names(base), pairs, like)
        targets.check_biases((name for name in base.tensors if name.endswith(".bias")), pairs)
    return _matched(translation(_swapped(base, pairs)), pairs)


def _folder_names(base: Checkpoint) -> dict[str, str]:
    """What a folder calls each matrix of the model -> what `base` calls it."""
    if base.format == "gguf":
        return names_in_folder(base)
    return {
        name: name
        for name, tensor in base.tensors.items()
        if name.endswith(".weight") and len(tensor.shape) == 2
    }


def _of_gguf(file: Checkpoint, base: Checkpoint) -> dict[str, Pair]:
    kind, sort = file.metadata.get("general.type"), file.metadata.get("adapter.type")
    if kind != "adapter" or sort != "lora":
        is_model = "token_embd.weight" in file.tensors
        raise FormatError(
            "it is a model, and no adapter"
            if is_model
            else f"it is no LoRA adapter: general.type = {kind!r}, adapter.type = {sort!r}",
            hint="give a GGUF file with the matrices of an adapter, or a folder that PEFT wrote",
        )
    if file.architecture != base.architecture:
        problem = f"it is of architecture {file.architecture}"
        raise UnsupportedError(f"{problem}, and the model of {base.architecture}", hint=ANOTHER)
    keys = Fields(file.metadata, prefix="adapter.")
    alpha = keys.number("lora.alpha", 0.0, 1e9, 0.0)
    keys.get("type")
    keys.refuse_unread("the file", UNTOLD)
    pairs = paired(map(_matrix, file.tensors.values()))
    # By llama.cpp's word an alpha of 0 is none: products are taken as they are.
    return {
        weight: replace(pair, scale=alpha / pair.rank if alpha else 1.0)
        for weight, pair in pairs.items()
    }


def _matrix(tensor: Tensor) -> tuple[str, str, Tensor]:
    match = MATRIX.fullmatch(tensor.name)
    if match is None:
        raise TensorError(f"tensor {tensor.name} is no part of a LoRA adapter")
    return match["weight"], match["side"], tensor


def own_names(base: Checkpoint, weights: Iterable[str], row: Hub | None) -> dict[str, str]:
    """What the model calls each: classes put different names before all, which say nothing.

    `row`: of a folder with a folder's adapter. Raises TensorError for what the model has not.
    """
    found = {weight: weight for weight in weights}
    others = [weight for weight in found if weight not in base.tensors]
    if others and row is not None:
        same = {gguf_name(name, row)[0]: name for name in base.tensors}
        found |= {weight: same.get(gguf_name(weight, row)[0], weight) for weight in others}
    for weight, name in found.items():
        if name not in base.tensors:
            raise _absent(base, weight)
    return found


def _absent(base: Checkpoint, weight: str) -> TensorError:
    problem = f"it is for {weight}, which {base.path.name} has not"
    is_head = weight.endswith("lm_head.weight")
    tied = "the model's head is its embedding table, which is not adapted"
    return TensorError(problem, hint=tied if is_head else ANOTHER)


def _unpacked(base: Checkpoint) -> Checkpoint:
    """A folder of quantized weights as one of whole ones: an adapter is for these."""
    tensors = base.tensors
    if base.format == "safetensors":
        tensors = read_quantized(base.tensors, base.metadata)
    if tensors is base.tensors:
        return base
    kept = {key: value for key, value in base.metadata.items() if key not in SETTINGS}
    return replace(base, tensors=tensors, metadata=kept)


def _swapped(base: Checkpoint, pairs: Mapping[str, Pair]) -> Checkpoint:
    """Each second matrix takes its weight's place in the file, for rows are what translation
    moves; each first one follows the weight by its columns, which stay.

    It is read by a function there, so that what is made of it keeps its bytes (`_place`).
    """
    for weight, pair in pairs.items():
        if base.tensors[weight].shape != pair.shape:
            raise TensorError(
                f"it is for {weight} of {pair.shape}, and {base.path.name} has it as "
                f"{base.tensors[weight].shape}",
                hint=ANOTHER,
            )
    ups = {
        weight: replace(pair.up, name=weight, make=pair.up.read) for weight, pair in pairs.items()
    }
    return replace(base, tensors={**base.tensors, **ups})


def _matched(model: Checkpoint, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """What became of each second matrix, by what it was made of; all must have become one."""
    of = {_place(pair.up): pair for pair in pairs.values()}
    found = {
        name: replace(of[_place(tensor)], up=tensor)
        for name, tensor in model.tensors.items()
        if _place(tensor) in of and tensor.shape[-1] == of[_place(tensor)].rank
    }
    used = {_place(pair.up) for pair in found.values()}
    for weight, pair in pairs.items():
        if _place(pair.up) not in used:
            raise UnsupportedError(f"{weight} cannot be adapted: it is not a projection of its own")
    for name in found:
        if derived.moves_columns(model.tensors[name]):
            raise UnsupportedError(
                f"{name} cannot be adapted: the columns of the model's are in another order here",
                hint="train the adapter on the other projections",
            )
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
