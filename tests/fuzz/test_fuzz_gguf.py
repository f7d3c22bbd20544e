"""GGUF files with fields changed: a typed error or a model whose every byte is in the file."""

from __future__ import annotations

import resource
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.soon import soon

from build_gguf import golden_fields, join
from pyrite.errors import ModelError
from pyrite.formats.checkpoint import Checkpoint, StringTable
from pyrite.formats.gguf_writer import ALIGNMENT, Field
from pyrite.models.registry import open_model
from pyrite.quant.dequant import dequantize
from pyrite.quant.formats import EXECUTED, bytes_per_row

EXAMPLES = 400
SECONDS = 5.0  # one file may take
SEEDS = ("llama_q4_0.gguf", "qwen2_q4_k_m.gguf")

EDGES = (0, 1, 2, 3, 7, 8, 31, 32, 33, 255, 256, 2**16, 2**24, 2**31, 2**32, 2**43 + 3, 2**60)
NUMBERS = st.one_of(
    st.sampled_from([*EDGES, 2**61, 2**63, 2**64 - 1, *(edge - 1 for edge in EDGES if edge)]),
    st.integers(0, 64),
    st.integers(0, 2**64 - 1),
)


@st.composite
def changed(draw, fields: list[Field]) -> list[Field]:
    """One to three fields changed, dropped, doubled, or swapped with the next."""
    fields = list(fields)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        at = draw(places(fields[:-1]))
        kind = draw(st.sampled_from(["value"] * 6 + ["text"] * 4 + ["drop", "double", "swap"]))
        if kind == "value":
            fields[at] = draw(other_value(fields[at], fields))
        elif kind == "text":
            replace_text(draw, fields)
        elif kind == "drop":
            del fields[at]
        elif kind == "double":
            fields.insert(at, fields[at])
        else:
            fields[at], fields[at + 1] = fields[at + 1], fields[at]
    return fields


@st.composite
def places(draw, fields: list[Field]) -> int:
    """An index: each key and tensor is as likely as any other, however many fields it has."""
    name = draw(st.sampled_from(sorted({field.name for field in fields})))
    return draw(st.sampled_from([i for i, field in enumerate(fields) if field.name == name]))


def replace_text(draw, fields: list[Field]) -> None:
    """Another key, name or string, with the length that it has."""
    at = draw(places([field for field in fields if field.kind == "text"]))
    at = [i for i, field in enumerate(fields) if field.kind == "text"][at]
    data = draw(other_value(fields[at], fields)).data
    fields[at] = Field(fields[at].name, "text", data)
    fields[at - 1] = Field(fields[at].name, "length", struct.pack("<Q", len(data)))


@st.composite
def other_value(draw, field: Field, fields: list[Field]) -> Field:
    if field.kind == "text":
        texts = [other.data for other in fields if other.kind == "text"][:80]
        data = draw(st.one_of(st.binary(max_size=40), st.sampled_from(texts)))
    elif field.kind in ("magic", "number", "pad"):
        size = len(field.data)
        data = draw(st.one_of(st.binary(min_size=size, max_size=size), st.just(b"\xff" * size)))
    elif field.kind in ("type", "rank", "version") and draw(st.booleans()):
        data = struct.pack("<I", draw(st.integers(0, 45)))
    else:
        size = len(field.data)
        old = int.from_bytes(field.data, "little")
        near = st.sampled_from([old + 1, old - 1, old * 2, old // 2, old + 32])
        data = (draw(st.one_of(NUMBERS, near)) % 2 ** (8 * size)).to_bytes(size, "little")
    return Field(field.name, field.kind, data)


@dataclass(frozen=True)
class Changed:
    """A file as its header, what follows the data, and where it is cut (None: nowhere)."""

    header: bytes
    tail: bytes
    cut: int | None

    def content(self, data: bytes) -> bytes:
        return (self.header + data + self.tail)[: self.cut]


@st.composite
def files(draw, header: list[Field], num_data_bytes: int) -> Changed:
    """A changed header; sometimes the file is cut, longer, or not aligned any more."""
    content = join(draw(changed(header[:-1])))
    padding = -len(content) % ALIGNMENT
    content += bytes(padding if draw(st.integers(0, 7)) else draw(st.integers(0, 32)))
    match draw(st.sampled_from(["whole"] * 8 + ["cut", "longer"])):
        case "cut":
            return Changed(content, b"", draw(st.integers(0, len(content) + num_data_bytes)))
        case "longer":
            return Changed(content, draw(st.binary(min_size=1, max_size=64)), None)
    return Changed(content, b"", None)


def touch(opened: Checkpoint) -> None:
    """Uses everything that an opened model promises."""
    for tensor in opened.tensors.values():
        rows = 1
        for size in tensor.shape[:-1]:
            rows *= size
        assert tensor.data.nbytes == rows * bytes_per_row(tensor.type, tensor.shape[-1])
        if tensor.type in EXECUTED:
            assert dequantize(tensor.data, tensor.type, tensor.shape).shape == tensor.shape
    for value in opened.metadata.values():
        if isinstance(value, StringTable):
            assert sum(len(value[index]) for index in range(len(value))) == value.lengths.sum()


@pytest.mark.parametrize("name", SEEDS)
def test_changed_files(golden, tmp_path, name):
    header, data = golden_fields(golden / "gguf_models" / name)
    path: Path = tmp_path / "m.gguf"
    counts = {"opened": 0, "refused": 0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @settings(max_examples=EXAMPLES)
    @given(file=files(header, len(data)))
    def one_file(file: Changed) -> None:
        path.unlink(missing_ok=True)  # a new file: an older map keeps its own
        path.write_bytes(file.content(data))
        with soon(SECONDS):
            try:
                opened = open_model(path)
            except ModelError:
                counts["refused"] += 1
            else:
                touch(opened)
                counts["opened"] += 1

    one_file()
    assert sum(counts.values()) >= EXAMPLES
    assert min(counts.values()) >= 5, counts
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert growth < 2 * len(data) + 100e6
