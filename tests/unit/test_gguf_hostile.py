"""Truncated, lying and foreign GGUF files: refused by name, fast, and without large allocations."""

from __future__ import annotations

import os
import shutil
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from build_gguf import ABSENT, TENSORS, VOCABULARY, build, put, write
from pyrite.errors import FormatError, ModelError, ModelNotFoundError, UnsupportedError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.gguf import read_gguf
from pyrite.formats.gguf_writer import Field, TensorSpec
from pyrite.quant.formats import FORMATS, REMOVED
from work import counted


@contextmanager
def bounded(lines: int = 20_000, megabytes: float = 50.0) -> Iterator[None]:
    """What runs inside is at most so much work, and allocates at most so much at a time."""
    tracemalloc.start()
    try:
        with counted() as work:
            yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert work.lines < lines
    assert peak < megabytes * 1e6


def refused(path: Path, message: str, kind: type[ModelError] = FormatError) -> None:
    with bounded(), pytest.raises(kind, match=message) as caught:
        open_checkpoint(path)
    assert path.name in str(caught.value)


def test_the_file_that_the_cases_edit_opens(tmp_path):
    opened = open_checkpoint(write(tmp_path / "m.gguf"))
    assert {n: t.data[0] for n, t in opened.tensors.items()} == {"first": 1, "second": 2}


COUNTS = (1 << 31, 1 << 60, 1 << 61, 1 << 63, -1)
ARRAY_KEY = {"x.array": np.arange(3, dtype=np.uint32)}
STRINGS_KEY = {"x.array": ["a", "b"]}
NESTED_KEY = {"x.array": [np.arange(2, dtype=np.uint8)]}


@pytest.mark.parametrize("value", COUNTS)
@pytest.mark.parametrize(
    ("edit", "metadata", "message"),
    [
        (("number of tensors", "count"), {}, "number of tensors: .*at byte 8 would need"),
        (("number of keys", "count"), {}, "number of keys: .* at byte 16 would need"),
        (("x.array", "count"), ARRAY_KEY, "array x.array: .* would need"),
        (("x.array", "count"), STRINGS_KEY, "array x.array: .* would need"),
        (("x.array", "count"), NESTED_KEY, "array x.array: .* would need"),
        (("x.name", "length"), {}, "key 2 of 3: bytes .* run past the end"),
        (("first", "length"), {}, "name of tensor 0 of 2: bytes .* run past the end"),
    ],
)
def test_counts_that_lie(tmp_path, edit, metadata, message, value):
    refused(write(tmp_path / "m.gguf", metadata, edit=put(*edit, value)), message)


@pytest.mark.parametrize("value", COUNTS)
@pytest.mark.parametrize(
    ("name", "metadata", "index", "message"),
    [
        ("x.name", {}, 1, "value of x.name: bytes"),
        ("x.array", STRINGS_KEY, 2, "array x.array: one of 2 strings from byte"),
    ],
)
def test_string_lengths_that_lie(tmp_path, name, metadata, index, message, value):
    edit = put(name, "length", value, index)
    refused(write(tmp_path / "m.gguf", metadata, edit=edit), message)


DIMENSIONS = {
    "0": (("size", 0), "dimensions of tensor first: .*each must be 1"),
    "negative": (("size", -1), "dimensions of tensor first: .*each must be 1"),
    "2^63": (("size", 1 << 63), "dimensions of tensor first: .*each must be 1"),
    "2^43+3": (("size", (1 << 43) + 3), "tensor first: bytes .* run past the end"),
    "product wraps": (("size", 1 << 61), "tensor first: bytes .* run past the end"),
    "2^63-1": (("size", (1 << 63) - 1), "tensor first: bytes .* run past the end"),
    "rank 0": (("rank", 0), "number of dimensions of tensor first: 0"),
    "rank 5": (("rank", 5), "number of dimensions of tensor first: 5"),
    "rank 9": (("rank", 9), "number of dimensions of tensor first: 9"),
    "rank -1": (("rank", 0xFFFFFFFF), "number of dimensions of tensor first: 4294967295"),
    "offset past the end": (("offset", 1 << 40), "tensor first: bytes .* run past the end"),
    "offset wraps": (("offset", -32), "tensor first: bytes .* run past the end"),
    "offset not aligned": (("offset", 4), "tensor first: offset 4 is not a multiple of 32"),
    "name not UTF-8": (("text", b"fir\xfft"), "name of tensor 0 of 2: .*not UTF-8"),
}


@pytest.mark.parametrize("case", DIMENSIONS)
def test_tensor_rows_that_lie(tmp_path, case):
    (kind, value), message = DIMENSIONS[case]
    refused(write(tmp_path / "m.gguf", edit=put("first", kind, value)), message)


def test_tensors_that_overlap(tmp_path):
    edit = put("second", "offset", 32)  # the first has 64 bytes
    refused(write(tmp_path / "m.gguf", edit=edit), "tensor second: bytes .* overlap .* first")


def test_rows_that_are_not_whole_blocks(tmp_path):
    edit = put("first", "type", FORMATS["Q8_0"].number)
    refused(write(tmp_path / "m.gguf", edit=edit), "tensor first: rows of 8 values")


@pytest.mark.parametrize("value", [0, 1, 3, 24, 48, 1 << 25, 1 << 31, "32", -32, 32.0])
def test_alignment_that_cannot_be(tmp_path, value):
    refused(write(tmp_path / "m.gguf", {"general.alignment": value}), "general.alignment")


@pytest.mark.parametrize("text", [b"", b"k\xff"])
def test_keys_that_are_not_names(tmp_path, text):
    def edit(fields: list[Field]) -> list[Field]:
        length = struct.pack("<Q", len(text))
        return put("x.name", "text", text)(put("x.name", "length", length)(fields))

    refused(write(tmp_path / "m.gguf", edit=edit), "key 2 of 3")


def test_key_longer_than_the_specification_allows(tmp_path):
    refused(write(tmp_path / "m.gguf", {"k" * 65536: 1}), "key 3 of 4: 65536 bytes")


def test_names_that_occur_twice(tmp_path):
    again = put("llama.block_count", "text", b"x.name")
    shorter = put("llama.block_count", "length", 6)
    refused(
        write(tmp_path / "m.gguf", edit=lambda fields: again(shorter(fields))),
        "key x.name: occurs twice",
    )
    twice = (TENSORS[0], TENSORS[0])
    refused(write(tmp_path / "m.gguf", tensors=twice), "tensor first: occurs twice")


@pytest.mark.parametrize("number", [13, 255, 0xFFFFFFFF])
def test_value_types_that_do_not_exist(tmp_path, number):
    refused(write(tmp_path / "m.gguf", edit=put("x.name", "type", number)), "type of x.name")
    edit = put("x.array", "type", number, 1)
    refused(write(tmp_path / "m.gguf", ARRAY_KEY, edit=edit), "type of x.array")


def test_truth_values_other_than_two(tmp_path):
    for metadata in ({"x.truth": True}, {"x.truth": np.array([True, False])}):
        edit = put("x.truth", "number", b"\x02" if metadata["x.truth"] is True else b"\x01\x07")
        refused(write(tmp_path / "m.gguf", metadata, edit=edit), "value of x.truth")


@pytest.mark.parametrize("depth", [5, 10_000])
def test_arrays_nested_deep(tmp_path, depth):
    array = struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 0, 0)

    def edit(fields: list[Field]) -> list[Field]:
        at = next(i for i, f in enumerate(fields) if (f.name, f.kind) == ("x.array", "count")) - 1
        return [*fields[:at], Field("x.array", "text", array), *fields[at + 3 :]]

    refused(write(tmp_path / "m.gguf", {"x.array": ["a"]}, edit=edit), "array x.array: nested")


def test_many_empty_arrays(tmp_path):
    metadata = {"x.array": [np.zeros(0, np.uint8)] * 70_000}
    refused(write(tmp_path / "m.gguf", metadata), "array x.array: 70000 .* at most 65536")


@pytest.mark.parametrize("number", [*REMOVED, 43, 255, 0xFFFFFFFF])
def test_tensor_types_that_are_not_known(tmp_path, number):
    path = write(tmp_path / "m.gguf", edit=put("first", "type", number))
    refused(path, f"tensor first has type number {number}", UnsupportedError)


@pytest.mark.parametrize("version", [0, 1, 4, 0xFFFF])
def test_versions_that_are_not_read(tmp_path, version):
    path = write(tmp_path / "m.gguf", edit=put("version", "version", version))
    refused(path, f"version {version}: versions 2 and 3 are read", UnsupportedError)


def test_known_types_are_listed_though_not_executed(golden):
    places = read_gguf(golden / "gguf" / "quant_types.gguf").tensors
    assert {place.type for place in places} >= {"IQ2_XXS", "MXFP4", "TQ1_0", "NVFP4"}


def test_big_endian_is_refused_when_it_has_tensors(golden):
    path = golden / "gguf" / "kv_types_bigendian.gguf"
    refused(path, "big-endian", UnsupportedError)


FOREIGN = {
    "empty": (b"", "empty"),
    "zeros": (bytes(4096), "nothing but zeros"),
    "HTML": (b"\n<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS"),
    "ZIP": (b"PK\x03\x04" + bytes(100), "ZIP archive"),
    "pickle": (b"\x80\x02}q\x00." + bytes(30), "pickle"),
    "safetensors": (struct.pack("<Q", 20) + b'{"a": {}}' + b" " * 20, "a safetensors file"),
    "GGML": (b"tjgg" + bytes(30), "from before GGUF"),
    "gzip": (b"\x1f\x8b\x08" + bytes(30), "gzip"),
    "JSON": (b'{"error": "not found"}', "a JSON file"),
    "text": (b"Not found\n", "text"),
    "tar": (b"name" + bytes(253) + b"ustar" + bytes(300), "tar archive"),
    "noise": (np.random.default_rng(3).bytes(600), "nothing known"),
    "two bytes": (b"GG", "the first 2 bytes of a GGUF file"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_files_are_recognised(tmp_path, case):
    data, message = FOREIGN[case]
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    refused(path, message)


def test_nothing_there(tmp_path):
    with pytest.raises(ModelNotFoundError, match="no file"):
        open_checkpoint(tmp_path / "absent.gguf")
    with pytest.raises(FormatError, match="not a regular file"):
        read_gguf(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.gguf")
    with bounded(), pytest.raises(FormatError, match="not a regular file"):
        open_checkpoint(tmp_path / "pipe.gguf")


@pytest.mark.parametrize("step", [1, 17])
def test_cut_at_every_byte_of_the_header(golden, tmp_path, step):
    """Each is refused with the bytes and the file's size; of the larger file every 17th byte."""
    path = tmp_path / "cut.gguf"
    path.write_bytes(build(VOCABULARY | ARRAY_KEY | NESTED_KEY))
    if step > 1:
        shutil.copy(golden / "gguf_models" / "llama_q4_0.gguf", path)
    start, size = read_gguf(path).tensors[0].start, path.stat().st_size
    inside = np.random.default_rng(5).integers(start, size - 32, 200).tolist()
    with bounded(lines=10_000_000):
        for cut in sorted({*range(0, start, step), *inside}, reverse=True):
            os.truncate(path, cut)
            with pytest.raises(FormatError, match=r"empty|bytes? ") as caught:
                read_gguf(path)
            assert cut == 0 or str(cut) in caught.value.message


def test_cut_data_names_the_tensor_and_its_bytes(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(build()[: -(-(3 * 34) % 32) - 1])  # one byte less than the second needs
    size = path.stat().st_size
    refused(path, rf"tensor second: bytes {size - 101} to {size + 1} run past the end at {size}")


@pytest.mark.parametrize("junk", [b"\x00" * 32, b"junk", b"\x00" * 4096])
def test_longer_than_its_tensors(tmp_path, junk):
    path = tmp_path / "m.gguf"
    path.write_bytes(build() + junk)
    refused(path, r"bytes \d+ to \d+: nothing accounts for them after tensor second")


def test_real_file_cut(smollm2_path, tmp_path):
    path = tmp_path / "cut.gguf"
    shutil.copy(smollm2_path, path)
    whole = path.stat().st_size
    data_start = min(place.start for place in read_gguf(smollm2_path).tensors)
    rng = np.random.default_rng(7)
    inside = rng.integers(data_start, whole, 200).tolist()
    header = rng.integers(24, data_start, 100).tolist()
    cuts = [whole - 1, int(whole * 0.9), data_start, data_start - 1, data_start - 40]
    for cut in sorted({*cuts, *inside, *header}, reverse=True):
        os.truncate(path, cut)
        field = "tensor" if cut >= data_start else ""
        with pytest.raises(FormatError, match=rf"{field}.*bytes? \d+"):
            open_checkpoint(path)


def test_architecture_missing(tmp_path):
    path = write(tmp_path / "m.gguf", {"general.architecture": ABSENT})
    refused(path, r"general\.architecture is missing")


def test_a_file_of_metadata_alone_opens(tmp_path):
    opened = open_checkpoint(write(tmp_path / "m.gguf", tensors=()))
    assert dict(opened.tensors) == {}


def test_tensors_in_another_order_than_their_data(tmp_path):
    """The table's order is free as long as no byte is used twice."""
    swapped = [put("first", "offset", 128), put("second", "offset", 0)]
    tensors = (TensorSpec("first", "F32", (2, 8)), TensorSpec("second", "Q8_0", (3, 32)))
    path = write(tmp_path / "m.gguf", tensors=tensors, edit=lambda f: swapped[1](swapped[0](f)))
    assert len(read_gguf(path).tensors) == 2
