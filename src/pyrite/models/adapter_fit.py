"""From an adapter's matrices to those of the model that it is loaded for.

A model's weights are renamed, cut and reordered on their way from a file; the matrices take that
way too. What becomes of them in a graph is unknown here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Checkpoint, Tensor
from pyrite.formats.prequantized import SETTINGS, read_quantized
from pyrite.models.blocks import HEAD, TABLE, is_embedding
from pyrite.models.hub import Hub, gguf_name
from pyrite.models.lora import ANOTHER, Pair, put_once
from pyrite.models.peft_names import in_file
from pyrite.models.registry import as_gguf
from pyrite.models.saved_weight import require_own

Translation = Callable[[Checkpoint], Checkpoint]


def named_as(
    base: Checkpoint, pairs: Mapping[str, Pair], row: Hub | None, version: str
) -> tuple[Checkpoint, dict[str, Pair]]:
    """The model, with its embedding table once, and the matrices by what it calls their weights.

    Of a folder with a folder's adapter (`row`, by PEFT's `version`) those of experts go by GGUF's
    names, as stacks. A head that is the table is HEAD.

    Raises FormatError, TensorError, UnsupportedError.
    """
    if row is None:
        return base, {_own_name(base, weight, weight): pair for weight, pair in pairs.items()}
    base = _without_copy(base, row)
    experts = {
        weight: pair
        for weight, pair in pairs.items()
        if len(pair.shape) == 3 or gguf_name(weight, row)[1] is not None
    }
    found = in_file(experts, row, as_gguf(base), version) if experts else {}
    same = {HEAD: HEAD} | {gguf_name(name, row)[0]: name for name in base.tensors}
    for weight, pair in pairs.items():
        if weight not in experts:
            other = same.get(gguf_name(weight, row)[0], weight)
            put_once(found, _own_name(base, weight, other), pair)
    return base, found


def fitted(
    base: Checkpoint, pairs: Mapping[str, Pair], translation: Translation, row: Hub | None
) -> dict[str, Pair]:
    """By the model's names after `translation`, which is of `base`; both as `named_as` gives them.

    A model whose head is its embedding table has both to adapt: matrices of the head change the
    logits alone, and those of the table what is computed of tokens.

    Raises TensorError, UnsupportedError.
    """
    here = {weight: pair for weight, pair in pairs.items() if weight in base.tensors}
    stacks = {name: pair for name, pair in pairs.items() if name not in {HEAD, *here}}
    found = _moved(base, here, translation)
    if stacks:
        found |= _moved(as_file(base), stacks, translation)
    if HEAD in pairs and HEAD not in here:
        (moved,) = _moved(base, {_table_of(base, row): pairs[HEAD]}, translation).values()
        found[HEAD] = moved
    for name, pair in found.items():
        if pair.is_table != is_embedding(name):
            meant = "an embedding table" if pair.is_table else "a projection"
            raise UnsupportedError(f"its matrices for {name} are such as {meant} has")
    return dict(sorted(found.items()))


def _own_name(base: Checkpoint, weight: str, other: str) -> str:
    """What the model calls a weight. Classes put different names before all, which say nothing, so
    it may be an `other` one."""
    name = weight if weight in base.tensors else other
    if name not in base.tensors and name != HEAD:
        raise TensorError(f"it is for {weight}, which {base.path.name} has not", hint=ANOTHER)
    return name


def as_file(base: Checkpoint) -> Checkpoint:
    """A folder as a GGUF file of the same model, which is translated no more."""
    return replace(as_gguf(base), format="gguf")


def unpacked(base: Checkpoint) -> Checkpoint:
    """A folder of quantized weights as one of whole ones: an adapter is for these."""
    tensors = base.tensors
    if base.format == "safetensors":
        tensors = read_quantized(base.tensors, base.metadata)
    if tensors is base.tensors:
        return base
    kept = {key: value for key, value in base.metadata.items() if key not in SETTINGS}
    return replace(base, tensors=tensors, metadata=kept)


def _without_copy(base: Checkpoint, row: Hub) -> Checkpoint:
    """A folder may have its embedding table once more, as its head."""
    heads = {name for name in base.tensors if gguf_name(name, row)[0] == HEAD}
    if not heads or HEAD in as_gguf(base).tensors:
        return base
    kept = {name: tensor for name, tensor in base.tensors.items() if name not in heads}
    return replace(base, tensors=kept)


def _table_of(base: Checkpoint, row: Hub | None) -> str:
    """What the model calls its embedding table."""
    if row is None:
        return TABLE
    return next(name for name in base.tensors if gguf_name(name, row)[0] == TABLE)


def _moved(
    base: Checkpoint, pairs: Mapping[str, Pair], translation: Translation
) -> dict[str, Pair]:
    return _matched(translation(_swapped(base, pairs)), pairs) if pairs else {}


def _swapped(base: Checkpoint, pairs: Mapping[str, Pair]) -> Checkpoint:
    """Each matrix that has a weight's rows takes its place in the file, for rows are what
    translation moves; the other one follows the weight by its columns, which stay.

    It is read by a function there, so that what is made of it keeps its bytes (`_place`).
    """
    for weight, pair in pairs.items():
        own = base.tensors[weight]
        if (1, *own.shape)[-len(pair.shape) :] != pair.shape:  # files have one row as a vector
            raise TensorError(
                f"it is for {weight} of {pair.shape}, and {base.path.name} has it as {own.shape}",
                hint=ANOTHER,
            )
        if pair.saved is not None:
            require_own(pair.saved, own)
    rows = {weight: pair.by_rows for weight, pair in pairs.items()}
    swapped = {weight: replace(one, name=weight, make=one.read) for weight, one in rows.items()}
    return replace(base, tensors={**base.tensors, **swapped})


def _matched(model: Checkpoint, pairs: Mapping[str, Pair]) -> dict[str, Pair]:
    """What became of each matrix, by what it was made of; all must have become one."""
    of = {_place(pair.by_rows): pair for pair in pairs.values()}
    found = {
        name: of[_place(tensor)].with_rows(tensor)
        for name, tensor in model.tensors.items()
        if _place(tensor) in of and tensor.shape[-1] == of[_place(tensor)].rank
    }
    used = {_place(pair.by_rows) for pair in found.values()}
    for weight, pair in pairs.items():
        if _place(pair.by_rows) not in used:
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
