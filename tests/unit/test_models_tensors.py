"""Loading is total: every tensor is used exactly once, with its shape and an executed type."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pyrite.errors import TensorError, UnsupportedError
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.models.registry import as_model, build_plan, open_model


@pytest.fixture(scope="module")
def llama(golden):
    return open_model(golden / "tiny" / "llama")


@pytest.fixture(scope="module")
def gemma(golden):
    return open_model(golden / "tiny" / "gemma")


def with_tensors(checkpoint, *added: Tensor, without: str = ""):
    tensors = {name: tensor for name, tensor in checkpoint.tensors.items() if name != without}
    return replace(checkpoint, tensors=tensors | {tensor.name: tensor for tensor in added})


def small(name: str, kind: str = "F32", shape: tuple[int, ...] = (2,)) -> Tensor:
    return Tensor(name, kind, shape, np.zeros(8, np.uint8))


def refused(checkpoint) -> str:
    with pytest.raises(TensorError) as caught:
        build_plan(checkpoint)
    return caught.value.message


def test_a_missing_tensor_is_named_with_its_shape(llama):
    text = refused(with_tensors(llama, without="blk.1.ffn_up.weight"))
    assert "missing: blk.1.ffn_up.weight (160, 64)" in text


def test_a_renamed_tensor_is_missing_and_left_over(llama):
    tensor = replace(llama.tensors["blk.1.ffn_up.weight"], name="blk.1.ffn_upp.weight")
    text = refused(with_tensors(llama, tensor, without="blk.1.ffn_up.weight"))
    assert "missing: blk.1.ffn_up.weight (160, 64)" in text
    assert "not used: blk.1.ffn_upp.weight (160, 64)" in text


def test_a_transposed_tensor_is_named_with_both_shapes(llama):
    tensor = replace(llama.tensors["blk.1.ffn_up.weight"], shape=(64, 160))
    text = refused(with_tensors(llama, tensor))
    assert "wrong shape: blk.1.ffn_up.weight is (64, 160) and must be (160, 64)" in text


def test_many_names_are_cut_with_their_count(llama):
    text = refused(with_tensors(llama, *(small(f"extra.{index}") for index in range(20))))
    assert "extra.0 (2,)" in text
    assert "and 12 more" in text


def test_a_layer_too_many_is_left_over(llama):
    added = [
        replace(tensor, name=name.replace("blk.2.", "blk.3."))
        for name, tensor in llama.tensors.items()
        if name.startswith("blk.2.")
    ]
    assert "not used: blk.3.attn_k.weight" in refused(with_tensors(llama, *added))


def test_a_copy_of_a_tied_table_may_be_there(golden):
    folder = open_checkpoint(golden / "tiny" / "gemma")
    table = replace(folder.tensors["model.embed_tokens.weight"], name="lm_head.weight")
    build_plan(as_model(with_tensors(folder, table)))
    other = replace(table, data=table.data[::-1])
    with pytest.raises(TensorError, match=r"not used: output\.weight"):
        as_model(with_tensors(folder, other))


def test_a_head_of_its_own_that_is_missing(golden):
    folder = open_checkpoint(golden / "tiny" / "llama")
    with pytest.raises(TensorError, match=r"missing: output\.weight \(384, 64\)"):
        as_model(with_tensors(folder, without="lm_head.weight"))


@pytest.mark.parametrize("kind", ["Q8_K", "F64", "U8", "F8_E4M3"])
def test_a_type_that_is_not_executed_is_refused_by_name(llama, kind):
    tensor = replace(llama.tensors["blk.0.attn_q.weight"], type=kind)
    with pytest.raises(UnsupportedError, match=rf"blk\.0\.attn_q\.weight has type {kind}"):
        build_plan(with_tensors(llama, tensor))
