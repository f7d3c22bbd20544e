"""The GGUF reader against the golden files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from build_gguf import ABSENT, VOCABULARY, copy_with, split, write
from pyrite.errors import FormatError, UnsupportedError
from pyrite.formats.checkpoint import StringTable, open_checkpoint
from pyrite.formats.gguf import read_gguf
from pyrite.formats.metadata import boolean, floating, integer, integers, string, strings
from pyrite.formats.vocabulary import require_tokenizer
from pyrite.quant.dequant import dequantize
from work import lines_run

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


def test_written_again_is_the_same_file(golden, tmp_path):
    for name in ("llama_q4_k_m.gguf", "qwen2_q8_0.gguf"):
        source = golden / "gguf_models" / name
        again = copy_with(source, tmp_path / name)
        assert again.read_bytes() == source.read_bytes()


def test_nested_arrays_and_wide_numbers_are_written_as_they_are_read(golden, tmp_path):
    numbers = {"x.u64": 1 << 63, "x.i64": -(1 << 40), "x.i32": -5, "x.f64": np.float64(1e300)}
    nested = {"x.nested": [np.arange(3, dtype=np.int16), np.zeros(0, np.int16)]}
    metadata = read_gguf(write(tmp_path / "m.gguf", numbers | nested)).metadata
    assert {key: metadata[key] for key in numbers} == numbers
    assert plain(metadata["x.nested"]) == [[0, 1, 2], []]


def test_opening_is_work_for_each_tensor_and_none_for_a_token(smollm2_path, gemma3_path):
    """Gemma has 236 tensors, and 262 thousand tokens."""
    for path in (smollm2_path, gemma3_path):
        num_tensors = len(open_checkpoint(path).tensors)
        assert lines_run(lambda path=path: open_checkpoint(path)) < 150 * num_tensors


def test_numbers_of_any_width(tmp_path):
    """Converters write counts and epsilons in whatever type they like."""
    for kind in (np.uint8, np.int8, np.uint16, np.int32, np.uint64, np.int64):
        value = read_gguf(write(tmp_path / "m.gguf", {"x": kind(7)})).metadata
        assert integer(value, "x", 0, 100) == 7
        assert floating(value, "x", 0, 100) == 7.0
    stored = read_gguf(
        write(
            tmp_path / "m.gguf",
            {
                "x.truth": np.uint8(1),
                "x.epsilon": np.float64(1e-5),
                "x.heads": np.array([4, 2, 4], np.int64),
                "general.nobody.knows": "this",
            },
        )
    ).metadata
    assert boolean(stored, "x.truth") is True
    assert floating(stored, "x.epsilon", 0, 1) == 1e-5
    assert integers(stored, "x.heads", 3, 1, 64) == (4, 2, 4)
    assert integers(stored, "x.truth", 2, 0, 9) == (1, 1)
    assert integer(stored, "x.absent", 0, 9, default=3) == 3
    assert integers(stored, "x.absent", 2, 0, 9, default=3) == (3, 3)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda m: integer(m, "n", 8, 9), r"n = 7: must be a whole number from 8 to 9"),
        (lambda m: integer(m, "f", 0, 9), r"f = 0\.5: must be a whole"),
        (lambda m: integer(m, "t", 0, 9), r"t = True: must be a whole"),
        (lambda m: integer(m, "absent", 0, 9), r"the key absent is missing"),
        (lambda m: integers(m, "a", 3, 0, 9), r"a = '2 numbers': must be one number, or 3"),
        (lambda m: integers(m, "a", 2, 0, 1), r"a = 2: must be a whole number from 0 to 1"),
        (lambda m: floating(m, "nan", 0, 9), r"nan = nan: must be a number from 0 to 9"),
        (lambda m: floating(m, "s", 0, 9), r"s = 'text': must be a number"),
        (lambda m: boolean(m, "n"), r"n = 7: must be true or false"),
        (lambda m: string(m, "n"), r"n = 7: must be text in UTF-8"),
        (lambda m: string(m, "bytes"), r"must be text in UTF-8"),
        (lambda m: strings(m, "s"), r"s = 'text': must be an array of strings"),
    ],
)
def test_values_of_the_wrong_kind(tmp_path, ask, message):
    values = {"n": 7, "f": 0.5, "t": True, "s": "text", "nan": float("nan"), "bytes": b"\xff"}
    values["a"] = np.array([1, 2])
    metadata = read_gguf(write(tmp_path / "m.gguf", values)).metadata
    with pytest.raises(FormatError, match=message):
        ask(metadata)


@pytest.fixture
def parts(golden, tmp_path) -> list[Path]:
    """A model of 21 tensors in three parts."""
    return split(golden / "gguf_models" / "llama_q4_0.gguf", tmp_path, [8, 6, 7])


def test_three_parts_open_by_any(golden, parts):
    whole = open_checkpoint(golden / "gguf_models" / "llama_q4_0.gguf")
    for part in parts:
        opened = open_checkpoint(part)
        assert opened.files == tuple(parts)
        assert opened.num_bytes == sum(path.stat().st_size for path in parts)
        assert len(opened.tokenizer.tokens) == len(whole.tokenizer.tokens)
        assert {n: t.data.tobytes() for n, t in opened.tensors.items()} == {
            n: t.data.tobytes() for n, t in whole.tensors.items()
        }


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_part_missing(parts, missing):
    parts[missing].unlink()
    with pytest.raises(FormatError, match=f"missing: {parts[missing].name}"):
        open_checkpoint(parts[(missing + 1) % 3])


def test_part_of_another_model(golden, parts, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    foreign = split(golden / "gguf_models" / "qwen2_q4_0.gguf", other, [9, 9, 9])
    foreign[1].replace(parts[1])
    with pytest.raises(FormatError, match=r"split\.tensors\.count is 27 in one and 21 in"):
        open_checkpoint(parts[0])


def test_part_in_the_place_of_another(parts):
    parts[2].write_bytes(parts[1].read_bytes())
    with pytest.raises(FormatError, match=r"model-00003.* says it is part 2 of 3"):
        open_checkpoint(parts[0])


def test_parts_that_repeat_or_lack_tensors(golden, parts, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    uneven = split(golden / "gguf_models" / "llama_q4_0.gguf", again, [8, 5, 8])
    uneven[1].replace(parts[1])
    with pytest.raises(FormatError, match="hold 20 tensors together and should hold 21"):
        open_checkpoint(parts[0])
    uneven[2].replace(parts[2])
    shutil.copy(split(golden / "gguf_models" / "llama_q4_0.gguf", again, [8, 6, 7])[1], parts[1])
    with pytest.raises(FormatError, match=r"22 tensors|occurs again in"):
        open_checkpoint(parts[0])


def test_parts_joined_by_concatenation(parts, tmp_path):
    merged = tmp_path / "merged.gguf"
    merged.write_bytes(b"".join(path.read_bytes() for path in parts))
    with pytest.raises(FormatError, match="parts of a split model were joined by concatenation"):
        open_checkpoint(merged)


def test_part_renamed(parts, tmp_path):
    renamed = parts[1].rename(tmp_path / "renamed.gguf")
    with pytest.raises(FormatError, match="one of 3 parts, and its name does not say which"):
        open_checkpoint(renamed)


def test_tokenizer_data(tmp_path):
    keys = {
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": np.int64(3),
        "tokenizer.ggml.eom_token_id": 2,
        "tokenizer.chat_template": "one",
        "tokenizer.chat_template.tool_use": "two",
    }
    opened = open_checkpoint(write(tmp_path / "m.gguf", VOCABULARY | keys))
    data = opened.tokenizer
    assert (data.model, data.eos_ids, data.bos_id, data.add_bos) == ("spm", (2, 3), None, True)
    assert data.types.tolist() == [2, 3, 3, 1]
    assert opened.chat_template == "one"
    assert dict(opened.chat_templates) == {"default": "one", "tool_use": "two"}
    assert require_tokenizer(opened) is data


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("scores", np.zeros(3, np.float32), "scores has 3 items, and there are 4 tokens"),
        ("scores", np.array([0, 1, np.nan, 2], np.float32), "scores holds a value that is not fin"),
        ("scores", ABSENT, "scores is missing"),
        ("scores", ["a"] * 4, "scores must be an array of numbers"),
        ("token_type", np.array([2, 3, 7, 1], np.int32), "token_type holds 1 to 7"),
        ("token_type", np.array([2, 3, 1], np.int32), "token_type has 3 items"),
        ("tokens", [], "tokens is empty"),
        ("tokens", ABSENT, "tokens is missing"),
        ("tokens", np.arange(4), "tokens = .* must be an array of strings"),
        ("eos_token_id", 4, "eos_token_id = 4: must be a whole number from 0 to 3"),
        ("bos_token_id", -1, "bos_token_id = -1: must be"),
        ("add_bos_token", 2, "add_bos_token = 2: must be true or false"),
        ("model", "gpt2", "merges is missing"),
    ],
)
def test_tokenizer_data_that_lies(tmp_path, key, value, message):
    path = write(tmp_path / "m.gguf", VOCABULARY | {f"tokenizer.ggml.{key}": value})
    with pytest.raises(FormatError, match=message):
        open_checkpoint(path)


def test_tokenizer_of_an_unknown_kind_is_listed_and_refused_when_needed(tmp_path):
    opened = open_checkpoint(write(tmp_path / "m.gguf", {"tokenizer.ggml.model": "bert"}))
    with pytest.raises(UnsupportedError, match="of kind 'bert'"):
        require_tokenizer(opened)
    with pytest.raises(UnsupportedError, match="holds no tokenizer"):
        require_tokenizer(open_checkpoint(write(tmp_path / "m.gguf")))
