"""Matrices whose columns are kept in another order, so that groups of them lie together (GPTQ).

They take the place of what they stand for, and a vector beside each says which column of the input
goes where; the graph picks the input's columns by it. Projections that have the same order share
one vector. Which formats have such matrices is unknown here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pyrite.formats.checkpoint import Tensor
from pyrite.formats.derived import held

ENDING = ".order"


def sorted_columns(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with those matrices in order, and their vectors."""
    found: dict[str, Tensor] = {}
    names: dict[tuple[str, bytes], str] = {}  # of vectors, by layer and content
    for name, tensor in tensors.items():
        twin = tensor.by_group
        if twin is None or twin.tensor.shape != tensor.shape:
            found[name] = tensor
            continue
        layer = ".".join(name.split(".")[:2])
        order = names.setdefault((layer, twin.order.tobytes()), name + ENDING)
        found[name] = replace(twin.tensor, name=name, recipe=f"{twin.tensor.recipe} by {order}")
        found[order] = held(order, twin.order.astype(np.float32))
    return found


def orders_of(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Of each matrix in another order, the name of its vector."""
    found = {}
    for name, tensor in tensors.items():
        _, by, order = tensor.recipe.rpartition(" by ")
        if by and order.endswith(ENDING):
            found[name] = order
    return found
