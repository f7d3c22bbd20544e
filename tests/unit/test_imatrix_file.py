"""Files of importance: both layouts, and files that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from pyrite.errors import FormatError
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.formats.imatrix import Importance, Sums, read_importance, write_importance

HEAD = {"general.type": "imatrix", "imatrix.datasets": ["a.txt"]}
COUNTS = {"imatrix.chunk_count": np.uint32(3), "imatrix.chunk_size": np.uint32(512)}


def sums(matrices=1, columns=4, count=2):
    squares = np.arange(matrices * columns, dtype=np.float32).reshape(matrices, columns)
    return Sums(squares, np.full(matrices, count, np.float32))


def test_what_is_written_is_read(tmp_path):
    entries = {"blk.0.attn_q.weight": sums(), "blk.0.ffn_up_exps.weight": sums(3)}
    path = tmp_path / "found.gguf"
    write_importance(Importance(path, ("a.txt", "b.txt"), 7, 512, entries))
    found = read_importance(path)
    assert (found.datasets, found.num_chunks, found.chunk_tokens) == (("a.txt", "b.txt"), 7, 512)
    assert list(found.entries) == list(entries)
    for name, one in entries.items():
        np.testing.assert_array_equal(found.entries[name].squares, one.squares)
        np.testing.assert_array_equal(found.entries[name].counts, one.counts)
    assert [p.name for p in tmp_path.iterdir()] == ["found.gguf"]


def test_the_gguf_library_reads_it_as_llama_cpp_lays_it_out(tmp_path):
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "found.gguf"
    write_importance(Importance(path, ("a.txt",), 7, 512, {"x.weight": sums(3)}))
    reader = gguf.GGUFReader(path)
    shapes = {one.name: list(one.shape) for one in reader.tensors}  # the innermost first
    assert shapes == {"x.weight.in_sum2": [4, 3], "x.weight.counts": [1, 3]}
    assert reader.fields["imatrix.chunk_count"].types == [gguf.GGUFValueType.UINT32]


def test_means():
    one = Sums(np.array([[2, 4], [6, 8]], np.float32), np.array([2, 0], np.float32))
    np.testing.assert_array_equal(one.means(), [[1, 2], [1, 1]])


def binary(entries, trailer=b""):
    parts = [struct.pack("<i", len(entries))]
    for name, calls, values in entries:
        parts += [
            struct.pack("<i", len(name)),
            name.encode(),
            struct.pack("<ii", calls, len(values)),
        ]
        parts.append(np.array(values, np.float32).tobytes())
    return b"".join(parts) + trailer


def test_the_older_layout(tmp_path):
    path = tmp_path / "old.dat"
    trailer = struct.pack("<ii", 9, 5) + b"c.txt"
    path.write_bytes(binary([("x.weight", 4, [8, 2, 4]), ("y", 0, [1])], trailer))
    found = read_importance(path)
    assert (found.datasets, found.num_chunks) == (("c.txt",), 9)
    np.testing.assert_array_equal(found.entries["x.weight"].means(), [[2, 0.5, 1]])
    path.write_bytes(binary([("x.weight", 4, [8, 2, 4])]))
    assert read_importance(path).datasets == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (struct.pack("<i", 0), "0 entries"),
        (struct.pack("<i", 1 << 20), "1048576 entries"),
        (binary([("x", 1, [1.0])])[:-2], "past the end"),
        (binary([("x", -1, [1.0])]), "calls of x is -1"),
        (binary([("x", 1, [np.nan])]), "not finite"),
        (binary([("x", 1, [-1.0])]), "negative"),
        (struct.pack("<iii", 1, 1 << 30, 0), "length of entry 0"),
        (binary([("x", 1, [1.0])], struct.pack("<ii", 1, -5)), "length of the text's name"),
    ],
)
def test_binary_files_that_lie(tmp_path, data, words):
    path = tmp_path / "old.dat"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=words):
        read_importance(path)


def gguf_file(path: Path, metadata, tensors):
    specs = [TensorSpec(name, kind, values.shape) for name, kind, values in tensors]
    data = {name: values.view(np.uint8).reshape(-1) for name, _, values in tensors}
    write_gguf(path, metadata, specs, lambda spec: data[spec.name])
    return path


SQUARES = ("x.in_sum2", "F32", np.ones((2, 4), np.float32))


@pytest.mark.parametrize(
    ("metadata", "tensors", "words"),
    [
        ({"general.type": "model"}, [SQUARES], "general.type is 'model'"),
        (HEAD, [SQUARES], "imatrix.chunk_count is missing"),
        (HEAD | COUNTS, [], "no importance of any tensor"),
        (HEAD | COUNTS, [SQUARES], "has no x.counts"),
        (
            HEAD | COUNTS,
            [SQUARES, ("x.counts", "F32", np.ones((3, 1), np.float32))],
            "2 rows of sums, and 3 counts",
        ),
        (
            HEAD | COUNTS,
            [SQUARES, ("x.counts", "F16", np.ones((2, 1), np.float16))],
            "type F16: must be F32",
        ),
        (
            HEAD | COUNTS,
            [SQUARES, ("x.counts", "F32", np.array([[1], [-1]], np.float32))],
            "negative",
        ),
    ],
)
def test_gguf_files_that_lie(tmp_path, metadata, tensors, words):
    with pytest.raises(FormatError, match=words):
        read_importance(gguf_file(tmp_path / "lie.gguf", metadata, tensors))
