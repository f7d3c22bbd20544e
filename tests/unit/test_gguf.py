"""The GGUF reader against the golden files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pyrite.formats.checkpoint import StringTable, open_checkpoint
from pyrite.formats.gguf import read_gguf
from pyrite.quant.dequant import dequantize

KV_FILES = ("kv_types.gguf", "kv_types_align64.gguf", "kv_types_bigendian.gguf")


@pytest.fixture(scope="module")
def kv_expected(golden: Path) -> dict:
    return json.loads((golden / "gguf" / "kv_types.expected.json").read_text())


def plain(value):
    """Metadata as JSON would have it."""
    if isinstance(value, StringTable):
        return [value[index].decode() for index in range(len(value))]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [plain(item) for item in value] if isinstance(value, list) else value


def rounded(kind: str, value):
    if kind != "FLOAT32":
        return value
    return np.float32(value).tolist() if not isinstance(value, list) else [*map(np.float32, value)]


@pytest.mark.parametrize("name", KV_FILES)
def test_every_metadata_type(golden, kv_expected, name):
    metadata = read_gguf(golden / "gguf" / name).metadata
    for key, entry in kv_expected["kv"].items():
        kind = entry.get("sub_type", entry["type"])
        assert plain(metadata[key]) == rounded(kind, entry["value"]), key
        assert type(plain(metadata[key])) is type(entry["value"]), key


@pytest.mark.parametrize("name", KV_FILES[:2])
def test_tensor_places(golden, kv_expected, name):
    file = read_gguf(golden / "gguf" / name)
    found = [(t.name, t.type, list(t.shape[::-1]), t.start, t.size) for t in file.tensors]
    assert found == [
        (e["name"], e["type"], e["ne"], e["offset_in_file"], e["nbytes"])
        for e in kv_expected["files"][name]
    ]


@pytest.mark.parametrize("version", [2, 3])
def test_empty_arrays_and_versions(golden, version):
    file = read_gguf(golden / "gguf" / f"empty_arrays_v{version}.gguf")
    assert file.version == version
    assert file.metadata["e.after"] == 77
    (place,) = file.tensors
    values = dequantize(file.data[place.start : place.end], place.type, place.shape)
    np.testing.assert_array_equal(values, np.arange(8, dtype=np.float32).reshape(2, 4))


@pytest.mark.parametrize("part", [1, 2])
def test_split_model_opens_by_any_part(golden, part):
    opened = open_checkpoint(golden / "gguf" / f"split-0000{part}-of-00002.gguf")
    assert len(opened.files) == 2
    with np.load(golden / "gguf" / "split.expected.npz") as expected:
        assert set(opened.tensors) == set(expected.files)
        for name, tensor in opened.tensors.items():
            values = dequantize(tensor.data, tensor.type, tensor.shape)
            np.testing.assert_array_equal(values, expected[name])
