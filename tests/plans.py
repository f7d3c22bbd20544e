"""Small plans built by hand, with random float32 weights: one operation, or a few, between an
embedding table (whose rows are the input) and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyrite.formats.checkpoint import Tensor
from pyrite.graph.build import GraphBuilder
from pyrite.graph.compile import compile_plan
from pyrite.graph.plan import Plan
from pyrite.graph.values import View

VOCABULARY = 64
CONTEXT = 4096


@dataclass(frozen=True)
class Model:
    plan: Plan
    weights: Mapping[str, Tensor]


def make_model(
    build: Callable[[GraphBuilder, View], View], width: int, *, passes=(), seed: int = 0
) -> Model:
    """`build` gets the embedded input (tokens, width) and gives the result, rows being tokens."""
    builder = GraphBuilder()
    result = build(builder, builder.embed("table", VOCABULARY, width))
    plan = compile_plan(
        builder.finish(result),
        architecture="test",
        context_length=CONTEXT,
        passes=passes,
        vocabulary=VOCABULARY,
    )
    return Model(plan, random_weights(builder.weights, seed))


def random_weights(shapes: Mapping[str, tuple[int, ...]], seed: int) -> Mapping[str, Tensor]:
    """Rows of matrices have about unit length; vectors are near one."""
    random = np.random.default_rng(seed)
    return {name: float_tensor(name, _values(random, shape)) for name, shape in shapes.items()}


def float_tensor(name: str, values: NDArray[np.float32]) -> Tensor:
    data = np.ascontiguousarray(values, np.float32)
    return Tensor(name, "F32", data.shape, data.view(np.uint8).reshape(-1))


def _values(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = random.standard_normal(shape).astype(np.float32)
    if len(shape) == 1:
        return np.float32(1) + np.float32(0.3) * values
    return values if shape[0] == VOCABULARY else values / np.float32(np.sqrt(shape[1]))
