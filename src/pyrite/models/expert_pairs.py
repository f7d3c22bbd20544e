"""The matrices that adapt experts one by one, as stacks: a model has all weights in one tensor.

An expert that is not adapted has zeros, and one of a smaller rank than others is filled with them:
the sums stay as they are. What experts are called is unknown here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from pyrite.errors import TensorError
from pyrite.formats import derived
from pyrite.models.lora import Pair


def stack(name: str, parts: Mapping[int, Pair], count: int) -> Pair:
    """`parts`: by the experts' numbers; `name`: of the weight; `count`: of the model's experts.

    Raises TensorError for an expert that the model has not, and for sizes that differ.
    """
    if (last := max(parts)) >= count:
        raise TensorError(f"it is for expert {last} of {name}, and there are {count}")
    first = next(iter(parts.values()))
    for pair in parts.values():
        if pair.shape != first.shape:
            raise TensorError(f"{name}: an expert's is {pair.shape}, and another's {first.shape}")
    kinds = {(pair.rank, pair.scale, pair.down.type, pair.up.type) for pair in parts.values()}
    if len(kinds) > 1 or len(parts) < count:
        return _filled(name, parts, count)
    pairs = [parts[expert] for expert in range(count)]
    down = derived.stacked(name, [pair.down for pair in pairs])
    return Pair(down, derived.stacked(name, [pair.up for pair in pairs]), first.scale)


def _filled(name: str, parts: Mapping[int, Pair], count: int) -> Pair:
    """The stack has one rank and one scale: the largest, and what most have to go with it."""
    rank = max(pair.rank for pair in parts.values())
    rows, columns = next(iter(parts.values())).shape
    alphas = Counter(pair.scale * pair.rank for pair in parts.values() if pair.scale)
    scale = alphas.most_common(1)[0][0] / rank if alphas else 1.0
    down, up = np.zeros((count, rank, columns), "f4"), np.zeros((count, rows, rank), "f4")
    for expert, pair in parts.items():
        down[expert, : pair.rank] = derived.values_of(pair.down)
        up[expert, :, : pair.rank] = derived.values_of(pair.up) * np.float32(pair.scale / scale)
    return Pair(derived.held(name, down), derived.held(name, up), scale)
