"""The two matrices that adapt a weight (LoRA), as files have them: paired, checked, with a scale.

How files name them, others know (`peft`, `adapters`); what a model does with them is unknown here.

Source: arXiv 2106.09685.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from pyrite.errors import FormatError, TensorError, UnsupportedError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.quant.formats import EXECUTED
from pyrite.quant.not_finite import find_not_finite
from pyrite.records import dataclass

MAX_RANK = 1 << 12
Key = TypeVar("Key", str, int)

ANOTHER = "the adapter was made for another model"


@dataclass(frozen=True, slots=True)
class Pair:
    """Adds scale * up @ down to a weight. `down` is (rank, columns), `up` (rows, rank).

    Of a stack of experts both have an axis more, the first: each expert has matrices of its own.
    Of an embedding table (`is_table`) `down` is (tokens, rank) and `up` (width, rank): scale * up @
    down[token] is added to a token's row.
    """

    down: Tensor
    up: Tensor
    scale: float = 1.0
    is_table: bool = False
    saved: Tensor | None = None  # the weight itself, which some adapters have besides

    @property
    def rank(self) -> int:
        return self.up.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the weight that it fits."""
        if self.is_table:
            return self.down.shape[0], self.up.shape[0]
        return *self.up.shape[:-1], self.down.shape[-1]

    @property
    def by_rows(self) -> Tensor:
        """The one that has the weight's rows."""
        return self.down if self.is_table else self.up

    def with_rows(self, tensor: Tensor) -> Pair:
        """With another in its place."""
        return replace(self, down=tensor) if self.is_table else replace(self, up=tensor)

    def scaled_up(self) -> Tensor:
        """The second matrix with the scale in it."""
        if self.scale == 1.0:
            return self.up
        return derived.computed(
            self.up, lambda values, _: values * self.scale, f"times {self.scale!r}"
        )


def paired(
    found: Iterable[tuple[str, str, Tensor]],
    is_table: Callable[[str], bool] = lambda _: False,
    most_rank: int = MAX_RANK,
) -> dict[str, Pair]:
    """Of (weight, "a" or "b", matrix): by weight, without their scales yet. `is_table`:
    of weights whose first matrix has a row for each token.

    Raises TensorError for one without the other or twice, for sizes that do not fit, and for a
    value that is not finite.
    """
    sides: dict[str, dict[str, Tensor]] = {}
    for weight, side, tensor in found:
        own = sides.setdefault(weight, {})
        if side in own:
            raise TensorError(f"tensors {own[side].name} and {tensor.name} are both for {weight}")
        own[side] = tensor
    pairs = {weight: _pair(weight, both, is_table(weight)) for weight, both in sides.items()}
    for pair in pairs.values():
        _check_shapes(pair, most_rank)
        _check_values(pair)
    return pairs


def _pair(weight: str, sides: Mapping[str, Tensor], is_table: bool) -> Pair:
    if sides.keys() != {"a", "b"}:
        (one,) = sides.values()
        problem = f"{weight} has one of the two matrices of an adapter: {one.name}"
        raise TensorError(problem, hint="the file is incomplete; save the adapter again")
    pair = Pair(sides["a"], sides["b"], is_table=is_table)
    for tensor in (pair.down, pair.up):
        if tensor.type not in EXECUTED:
            problem = f"tensor {tensor.name} has type {tensor.type}: not executed here"
            raise UnsupportedError(problem)
        if len(tensor.shape) not in ((2,) if is_table else (2, 3)):
            raise TensorError(f"tensor {tensor.name} is {tensor.shape}: must be a matrix")
    return pair


def _check_values(pair: Pair) -> None:
    for tensor in (pair.down, pair.up):
        if found := find_not_finite(tensor.read(), tensor.type, tensor.shape[-1]):
            raise found.error(tensor.name)


def put_once(found: dict[Key, Pair], key: Key, pair: Pair) -> None:
    """Raises FormatError where something is there."""
    if key in found:
        raise FormatError(f"it has matrices for one weight under several names: {pair.up.name}")
    found[key] = pair


def _check_shapes(pair: Pair, most_rank: int) -> None:
    down, up = pair.down.shape, pair.up.shape
    *experts, rank = down[:-2] + down[-1:] if pair.is_table else down[:-1]
    if (*experts, rank) != (*up[:-2], up[-1]) or not 1 <= rank <= most_rank:
        meant = "(rank, columns) and (rows, rank), or such of as many experts each"
        raise TensorError(
            f"tensor {pair.down.name} is {down} and {pair.up.name} {up}: must be "
            f"{'(tokens, rank) and (width, rank)' if pair.is_table else meant}, of a rank from 1"
            f" to {most_rank}"
        )
