"""Adapters (LoRA): small matrices beside a model's, for requests that ask for them.

Of a GGUF file, or of a folder as PEFT writes it. Names and layouts become those of the model's own
tensors, so a folder's adapter goes through the same translation as the model's folder. A model with
adapters has their tensors beside its own (`with_adapters`); graphs and plans follow from these.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyrite.errors import FormatError, ModelError, ModelNotFoundError, ParameterError
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.graph.build import down_name, up_name
from pyrite.models.adapter_fit import Translation, as_file, fitted, named_as, unpacked
from pyrite.models.hub import LAYER
from pyrite.models.lora import Pair
from pyrite.models.lora_file import read_lora
from pyrite.models.peft import read_peft
from pyrite.models.peft_names import as_file_has, names_in_folder
from pyrite.models.registry import as_gguf, as_model, find_hub
from pyrite.records import dataclass

MAX_ADAPTERS = 64
NAME = re.compile(r"[\w.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class Adapter:
    """`pairs`: by the name of the weight that they adapt, (rank, columns) and (rows, rank), or of
    the embedding table (tokens, rank) and (width, rank).

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
        (pairs, targets), base = read_peft(path), unpacked(base)
        like = next(filter(LAYER.fullmatch, pairs), "")
        if base.format == "gguf":
            pairs = as_file_has(base, pairs, targets.version)
        else:
            row = find_hub(base.architecture)
    else:
        base = as_file(base)
        pairs = read_lora(open_checkpoint(path), base)
    if not pairs:
        raise FormatError("it holds no matrices", hint="their names end in lora_a and lora_b")
    base, pairs = named_as(base, pairs, row, targets.version if targets else "")
    if targets is not None:
        targets.check_whole(_folder_names(base), pairs, like)
        targets.check_biases((name for name in base.tensors if name.endswith(".bias")), pairs)
    return fitted(base, pairs, translation, row)


def _folder_names(base: Checkpoint) -> dict[str, str]:
    """What a folder calls each matrix of the model -> what `base` calls it."""
    if base.format == "gguf":
        return names_in_folder(base)
    return {
        name: name
        for name, tensor in base.tensors.items()
        if name.endswith(".weight") and len(tensor.shape) == 2
    }


def _fingerprint(pairs: Mapping[str, tuple[Tensor, Tensor]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for weight, tensors in sorted(pairs.items()):
        for tensor in tensors:
            digest.update(f"{weight} {tensor.type} {tensor.shape}\n".encode())
            digest.update(tensor.read().tobytes())
    return digest.hexdigest()
