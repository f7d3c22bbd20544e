"""GGUF files with layers that predict further tokens: the model is the one without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import FormatError, TensorError
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.models.registry import arranged, as_gguf, build_plan, read_config

PREFIX = "qwen35."


def predicting(golden, count: int = 1) -> Checkpoint:
    """Layers after the golden model's last one, as converters number them."""
    plain = as_gguf(open_checkpoint(golden / "tiny" / "qwen3_5_text"))
    last = {name: tensor for name, tensor in plain.tensors.items() if name.startswith("blk.3.")}
    added = {}
    for index in range(4, 4 + count):
        for name, tensor in last.items():
            other = name.replace("blk.3.", f"blk.{index}.")
            added[other] = replace(tensor, name=other)
        name = f"blk.{index}.nextn.eh_proj.weight"
        added[name] = replace(last["blk.3.attn_output.weight"], name=name)
    recurrent = [True, True, True, *[False] * (1 + count)]
    metadata = {
        **plain.metadata,
        PREFIX + "block_count": 4 + count,
        PREFIX + "nextn_predict_layers": count,
        PREFIX + "attention.recurrent_layers": np.array(recurrent),
    }
    return replace(plain, format="gguf", metadata=metadata, tensors={**plain.tensors, **added})


@pytest.mark.parametrize("count", [1, 2])
def test_the_plan_is_that_of_the_model_without_them(golden, count):
    plain = arranged(as_gguf(open_checkpoint(golden / "tiny" / "qwen3_5_text")))
    model = arranged(predicting(golden, count))
    assert read_config(model) == read_config(plain)
    assert build_plan(model) == build_plan(plain)
    assert model.tensors.keys() == plain.tensors.keys()


def test_only_the_last_layers_are_left_out(golden):
    model = predicting(golden)
    beyond = {**model.tensors, "blk.5.extra.weight": model.tensors["token_embd.weight"]}
    with pytest.raises(TensorError, match=r"not used: blk\.5"):
        build_plan(arranged(replace(model, tensors=beyond)))


def test_as_many_as_there_are_layers(golden):
    model = predicting(golden)
    metadata = {**model.metadata, PREFIX + "nextn_predict_layers": 5}
    with pytest.raises(FormatError, match=r"nextn_predict_layers = 5: of 5 layers number 0"):
        arranged(replace(model, metadata=metadata))


def test_layers_that_predict_nothing_are_not_left_out(golden):
    model = predicting(golden)
    metadata = {**model.metadata, PREFIX + "nextn_predict_layers": 2}
    with pytest.raises(FormatError, match=r"nextn_predict_layers = 2: of 5 layers number 3"):
        arranged(replace(model, metadata=metadata))
    stray = {**model.tensors, "blk.4.stray.weight": model.tensors["token_embd.weight"]}
    with pytest.raises(TensorError, match=r"not used: blk\.4\.stray"):
        build_plan(arranged(replace(model, tensors=stray)))
