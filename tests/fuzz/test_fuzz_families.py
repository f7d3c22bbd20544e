"""Models of every family with a key or a tensor changed: a step that runs, or a typed error."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite.backends.cpu import CpuBackend
from pyrite.errors import BackendError, ModelError
from pyrite.formats.checkpoint import Checkpoint, Tensor, open_checkpoint
from pyrite.formats.safetensors import ITEM_BYTES
from pyrite.graph.plan import Plan
from pyrite.models.registry import MODEL_TYPES, arranged, as_gguf, as_model, build_plan
from pyrite.quant.formats import FORMATS, bytes_per_row
from steps import num_pages, sequence_logits

TINY = Path(__file__).parents[1] / "golden" / "tiny"
EXAMPLES = 600
NUMBERS = (-1, 0, 1, 2, 3, 7, 64, 2**40, -2.5, 0.0, 1.5, 1e-30, math.nan, math.inf)
OTHERS = (None, True, False, "x", [], {}, [1, "x"], {"type": "yarn", "factor": 2.0})
TYPES = ("F32", "BF16", "U8", "I64", "Q4_K", "Q8_0")
RUN = 4  # of so many models that have a plan one runs
IDS = [3, 5, 7, 5, 11]


@cache
def models() -> Sequence[Checkpoint]:
    folders = [open_checkpoint(path) for path in sorted(TINY.iterdir()) if path.is_dir()]
    return [folder for folder in folders if folder.architecture in MODEL_TYPES]


@cache
def files() -> Sequence[Checkpoint]:
    return [replace(as_gguf(model), format="gguf") for model in models()]


@st.composite
def with_another_key(draw, checkpoint: Checkpoint) -> Checkpoint:
    """Of the configuration, or of an object in it; or without it."""
    metadata = dict(checkpoint.metadata)
    place = metadata
    key = draw(st.sampled_from(sorted(set(place) - {"model_type", "general.architecture"})))
    if isinstance(place[key], dict) and place[key] and draw(st.booleans()):
        place[key] = dict(place[key])
        place = place[key]
        key = draw(st.sampled_from(sorted(place)))
    place[key] = draw(st.sampled_from((*NUMBERS, *OTHERS)))
    if draw(st.integers(0, 9)) == 0:
        del place[key]
    return replace(checkpoint, metadata=metadata)


@st.composite
def with_another_tensor(draw, checkpoint: Checkpoint) -> Checkpoint:
    """Of another shape or type; or without it."""
    name = draw(st.sampled_from(sorted(checkpoint.tensors)))
    tensors = dict(checkpoint.tensors)
    shape = tensors.pop(name).shape
    if draw(st.integers(0, 9)):
        flat = (int(np.prod(shape)),)
        shapes = [shape, shape[::-1], flat, (1, *shape), (1,), (2, 2), (3, 5, 7), (64, 256)]
        tensors[name] = empty(name, draw(st.sampled_from(shapes)), draw(st.sampled_from(TYPES)))
    return replace(checkpoint, tensors=tensors)


def empty(name: str, shape: tuple[int, ...], kind: str) -> Tensor:
    """Of types in blocks where they cut the rows evenly: what readers see to."""
    block = FORMATS[kind].block_columns if kind in FORMATS else 1
    kind = kind if shape[-1] % block == 0 else "F32"
    row = shape[-1] * ITEM_BYTES[kind] if kind in ITEM_BYTES else bytes_per_row(kind, shape[-1])
    return Tensor(name, kind, shape, np.zeros(int(np.prod(shape[:-1])) * row, np.uint8))


def planned(
    checkpoint: Checkpoint, opened: Callable[[Checkpoint], Checkpoint], is_run: bool
) -> bool:
    try:
        model = opened(checkpoint)
        plan = build_plan(model)
        if is_run and plan.context_length >= len(IDS) and plan.vocabulary > max(IDS):
            run(plan, model)
    except (ModelError, BackendError):
        return False
    return True


def run(plan: Plan, model: Checkpoint) -> None:
    runner = CpuBackend().prepare(
        plan,
        model.tensors,
        num_pages=num_pages(32),
        max_tokens=32,
        num_threads=1,
        precision="default",
    )
    sequence_logits(runner, IDS)


@pytest.mark.parametrize("changed", [with_another_key, with_another_tensor])
@pytest.mark.parametrize(("kind", "opened"), [("folder", as_model), ("file", arranged)])
def test_a_plan_or_a_typed_error(changed: Any, kind: str, opened: Any) -> None:
    counts = {True: 0, False: 0}

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def one_model(data) -> None:
        checkpoint = data.draw(st.sampled_from(models() if kind == "folder" else files()))
        is_run = data.draw(st.integers(1, RUN)) == RUN
        counts[planned(data.draw(changed(checkpoint)), opened, is_run)] += 1

    one_model()
    assert min(counts.values()) >= EXAMPLES // 20, counts
