"""Hub folders with their JSON changed: a typed error, or a model whose bytes are in the file."""

from __future__ import annotations

import copy
import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyrite.errors import ModelError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.quant.dequant import dequantize

EXAMPLES = 300
VALUES = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 2**31, 2**63, 2**64, 0.5, "", "F32", "BF16", [], {}]),
    st.sampled_from(["a", "part.safetensors", "../x", "/etc/hostname", "llama", [2, 4], [0, 32]]),
    st.integers(0, 200),
)
HEADER = {
    "__metadata__": {"format": "pt"},
    "a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
    "b": {"dtype": "BF16", "shape": [8], "data_offsets": [32, 48]},
}
INDEX = {"weight_map": {"a": "part.safetensors", "b": "part.safetensors"}}
CONFIG = {"model_type": "llama", "hidden_size": 8}


@st.composite
def changed(draw, document: dict) -> dict:
    """Up to two values anywhere in it replaced, or taken out."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 2))):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.integers(0, 3)):
                place = place[key]
                continue
            if draw(st.integers(0, 4)):
                place[key] = copy.deepcopy(draw(VALUES))
            else:
                del place[key]
            break
    return document


@st.composite
def folders(draw) -> dict[str, bytes]:
    text = json.dumps(draw(changed(HEADER))).encode()
    length = draw(st.sampled_from([len(text)] * 6 + [len(text) - 1, 2**63, 0]))
    data = bytes(draw(st.sampled_from([48] * 6 + [47, 49, 0])))
    content = struct.pack("<Q", length) + text + data
    return {
        "part.safetensors": content[: draw(st.one_of(st.none(), st.integers(0, len(content))))],
        "model.safetensors.index.json": json.dumps(draw(changed(INDEX))).encode(),
        "config.json": json.dumps(draw(changed(CONFIG))).encode(),
    }


def test_changed_folders(tmp_path):
    counts = {"opened": 0, "refused": 0}

    @settings(max_examples=EXAMPLES)
    @given(files=folders())
    def one_folder(files: dict[str, bytes]) -> None:
        for name, content in files.items():
            (tmp_path / name).unlink(missing_ok=True)
            (tmp_path / name).write_bytes(content)
        try:
            opened = open_checkpoint(tmp_path)
        except ModelError:
            counts["refused"] += 1
            return
        counts["opened"] += 1
        for tensor in opened.tensors.values():
            assert tensor.data.nbytes > 0
            if tensor.type in ("F32", "F16", "BF16"):
                assert dequantize(tensor.data, tensor.type, tensor.shape).shape == tensor.shape

    one_folder()
    assert sum(counts.values()) >= EXAMPLES
    assert min(counts.values()) >= 5, counts


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
@settings(max_examples=200)
@given(content=st.binary(max_size=60))
def test_any_bytes_as_json(tmp_path, name, content):
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError):
        open_checkpoint(tmp_path)
