"""Hub folders: golden models open, hostile ones are refused and nothing outside them is opened."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors

from pyrite.errors import FormatError, ModelError, ModelNotFoundError, UnsupportedError
from pyrite.formats.checkpoint import Tensor, open_checkpoint
from pyrite.formats.safetensors import read_safetensors
from pyrite.models.hub import gguf_name
from pyrite.models.registry import as_model, build_plan, find_hub, open_model

INFINITY = float("inf")
CONFIG = {"model_type": "llama", "limit": INFINITY}
SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


def file_bytes(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape: list[int], start: int, end: int, kind: str = "F32") -> dict:
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


ONE = file_bytes({"a": entry([2], 0, 8)}, bytes(8))


def make_folder(path: Path, files: dict[str, bytes | dict]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in {"config.json": CONFIG, **files}.items():
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("case", "architecture", "names"),
    [
        ("llama_tied", "llama", ["attn_q.bias", "ffn_norm.weight", "ffn_down.bias"]),
        ("qwen2", "qwen2", ["attn_k.bias", "attn_output.weight"]),
        ("gemma", "gemma", ["ffn_norm.weight"]),
        ("gemma2", "gemma2", ["post_attention_norm.weight", "post_ffw_norm.weight"]),
        ("gemma3_text", "gemma3", ["attn_q_norm.weight", "attn_k_norm.weight"]),
        ("llama_sharded", "llama", ["attn_norm.weight"]),
    ],
)
def test_golden_folders(golden, case, architecture, names):
    opened = open_model(golden / "tiny" / case)
    assert (opened.format, opened.architecture) == ("safetensors", architecture)
    assert {f"blk.1.{name}" for name in names} <= opened.tensors.keys()
    top = {name for name in opened.tensors if not name.startswith("blk.")}
    assert top <= {"token_embd.weight", "output.weight", "output_norm.weight"}
    assert opened.num_bytes == sum(path.stat().st_size for path in opened.files)
    assert opened.config["generation_config"] == {}


def test_every_tensor_equals_the_library(golden):
    folder = golden / "tiny" / "llama"
    opened = open_checkpoint(folder)
    expected = safetensors.deserialize((folder / SINGLE).read_bytes())
    assert len(expected) == len(opened.tensors)
    for name, fields in expected:
        tensor = opened.tensors[name]
        assert (tensor.type, list(tensor.shape)) == (fields["dtype"], fields["shape"])
        assert tensor.data.tobytes() == bytes(fields["data"])


def test_views_are_of_the_map_and_read_only(golden):
    tensor = open_checkpoint(golden / "tiny" / "llama").tensors["lm_head.weight"]
    assert tensor.data.base is not None
    assert not tensor.data.flags.writeable


def test_config_that_is_not_strict_json(tmp_path):
    opened = open_checkpoint(make_folder(tmp_path / "m", {SINGLE: ONE}))
    assert opened.metadata["limit"] == INFINITY


def test_generation_config_is_kept(tmp_path):
    files = {SINGLE: ONE, "generation_config.json": {"eos_token_id": [1, 7]}}
    opened = open_checkpoint(make_folder(tmp_path / "m", files))
    assert opened.metadata["generation_config"]["eos_token_id"] == [1, 7]


@pytest.mark.parametrize(
    ("model_type", "name", "expected"),
    [
        ("llama", "model.layers.11.mlp.up_proj.weight", "blk.11.ffn_up.weight"),
        ("llama", "layers.0.self_attn.o_proj.bias", "blk.0.attn_output.bias"),
        ("gemma3_text", "language_model.model.embed_tokens.weight", "token_embd.weight"),
        ("gemma2", "model.layers.3.pre_feedforward_layernorm.weight", "blk.3.ffn_norm.weight"),
        ("llama", "model.layers.0.self_attn.q_norm.weight", None),
        (
            "mixtral",
            "model.layers.1.block_sparse_moe.experts.3.w1.bias",
            "blk.1.ffn_gate_exps.bias",
        ),
        ("llama", "model.layers.0.mlp.up_proj.qweight", None),
    ],
)
def test_names(model_type, name, expected):
    assert gguf_name(name, find_hub(model_type))[0] == (expected or name)


def test_derived_buffers_are_passed_over(golden):
    folder = open_checkpoint(golden / "tiny" / "llama")
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    more = {name: Tensor(name, "F32", (2,), np.zeros(8, np.uint8))}
    model = as_model(replace(folder, tensors={**folder.tensors, **more}))
    assert model.tensors.keys() == as_model(folder).tensors.keys()


HEADERS = {
    "header length 2^63": (file_bytes({}, length=1 << 63), "header says"),
    "header length past the end": (file_bytes({"a": entry([2], 0, 8)}, length=4000), "header says"),
    "header not JSON": (file_bytes(b"{nope"), "not JSON"),
    "header nested deep": (file_bytes(b'{"a":' * 100_000), "not JSON|nested"),
    "header not a dictionary": (file_bytes(b"[1, 2]"), "not a safetensors file"),
    "header not UTF-8": (file_bytes(b'{"\xff": 1}'), "not JSON"),
    "entry not a dictionary": (file_bytes({"a": 3}), "needs dtype"),
    "entry without offsets": (file_bytes({"a": {"dtype": "F32", "shape": [1]}}), "needs dtype"),
    "name twice": (
        file_bytes(b'{"a": {}, "a": {}}'),
        "'a' occurs twice",
    ),
    "offsets reversed": (file_bytes({"a": entry([2], 8, 0)}, bytes(8)), "bytes 8 to 0"),
    "offsets past the end": (file_bytes({"a": entry([2], 0, 8)}, bytes(7)), "run past the end"),
    "offsets negative": (file_bytes({"a": entry([2], -8, 0)}, bytes(8)), "data_offsets"),
    "offsets truth values": (file_bytes({"a": entry([1], False, True)}, bytes(4)), "data_offsets"),
    "offsets overlap": (
        file_bytes({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, bytes(12)),
        "overlap tensor 'a'",
    ),
    "gap": (
        file_bytes({"a": entry([2], 0, 8), "b": entry([2], 12, 20)}, bytes(20)),
        "leave a gap after tensor 'a'",
    ),
    "junk at the end": (file_bytes({"a": entry([2], 0, 8)}, bytes(9)), "nothing accounts"),
    "size is not the shape's": (file_bytes({"a": entry([3], 0, 8)}, bytes(8)), "not the 12 of"),
    "shape overflows": (file_bytes({"a": entry([1 << 62, 4], 0, 8)}, bytes(8)), "not the"),
    "size 0": (file_bytes({"a": entry([0, 4], 0, 0)}), "sizes above 0"),
    "shape of fractions": (file_bytes({"a": entry([2.0], 0, 8)}, bytes(8)), "sizes above 0"),
    "unknown type": (file_bytes({"a": entry([2], 0, 8, "F32X")}, bytes(8)), "unknown type"),
    "type a list": (file_bytes({"a": {**entry([2], 0, 8), "dtype": []}}, bytes(8)), "unknown type"),
    "empty": (b"", "empty"),
    "HTML page": (b"<!DOCTYPE html><html>", "HTML page"),
    "ZIP": (b"PK\x03\x04" + bytes(64), "ZIP archive"),
    "GGUF": (b"GGUF" + bytes(64), "GGUF"),
    "LFS pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_hostile_file(tmp_path, case):
    data, message = HEADERS[case]
    with pytest.raises((FormatError, UnsupportedError), match=message):
        open_checkpoint(make_folder(tmp_path / "m", {SINGLE: data}))


def test_cut_anywhere_is_refused(golden, tmp_path):
    whole = (golden / "tiny" / "llama_tied" / SINGLE).read_bytes()
    header_end = 8 + int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(1)
    cuts = [*range(0, header_end, 13), *rng.integers(header_end, len(whole), 50).tolist()]
    path = tmp_path / "cut.safetensors"
    for size in cuts:
        path.write_bytes(whole[:size])
        with pytest.raises(FormatError):
            read_safetensors(path)


INDEXES = {
    "path upwards": ({"a": "../x.safetensors"}, "outside itself"),
    "absolute path": ({"a": "/etc/hostname"}, "outside itself"),
    "backslash": ({"a": "..\\x.safetensors"}, "outside itself"),
    "dots": ({"a": ".."}, "outside itself"),
    "empty name": ({"a": ""}, "outside itself"),
    "NUL": ({"a": "x\x00.safetensors"}, "outside itself"),
    "missing shard": ({"a": "other.safetensors"}, "lacks 1 of 1 files that .* names: other"),
    "missing tensor": ({"a": "part.safetensors", "b": "part.safetensors"}, "names tensor 'b'"),
    "tensor not named": ({"a": "part.safetensors", "c": "two.safetensors"}, "does not say so"),
    "name a number": ({"a": 3}, "must be a file's name"),
    "empty": ({}, "weight_map"),
}


@pytest.mark.parametrize("case", INDEXES)
def test_hostile_index(tmp_path, case):
    names, message = INDEXES[case]
    two = file_bytes({"c": entry([1], 0, 4), "d": entry([1], 4, 8)}, bytes(8))
    shards = {"part.safetensors": ONE, "two.safetensors": two}
    (tmp_path / "x.safetensors").write_bytes(ONE)
    folder = make_folder(tmp_path / "m", {INDEX: {"weight_map": names}, **shards})
    with opened_files() as opened, pytest.raises(FormatError, match=message):
        open_checkpoint(folder)
    assert all(path.is_relative_to(folder) for path in opened)


class opened_files:  # noqa: N801
    """The files that were opened meanwhile, as the interpreter's audit events tell."""

    current: list[Path] | None = None
    hooked = False

    def __enter__(self) -> list[Path]:
        if not opened_files.hooked:
            sys.addaudithook(opened_files.hook)
            opened_files.hooked = True
        opened_files.current = []
        return opened_files.current

    def __exit__(self, *_: object) -> None:
        opened_files.current = None

    @staticmethod
    def hook(event: str, arguments: tuple) -> None:
        if event == "open" and opened_files.current is not None:
            path = str(arguments[0])
            if not path.endswith((".py", ".pyc", ".so")) and ".pyc." not in path:
                opened_files.current.append(Path(path))


@pytest.mark.parametrize("name", [SINGLE, "config.json", "generation_config.json", INDEX])
def test_link_out_of_the_folder_is_refused(tmp_path, name):
    part = {"part.safetensors": ONE, INDEX: {"weight_map": {"a": "part.safetensors"}}}
    folder = make_folder(tmp_path / "m", part if name == INDEX else {SINGLE: ONE})
    outside = tmp_path / "outside"
    outside.write_bytes((folder / name).read_bytes() if (folder / name).exists() else b"{}")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside)
    with opened_files() as opened, pytest.raises(FormatError, match="outside the model's folder"):
        open_checkpoint(folder)
    assert outside not in opened


def test_links_of_the_hub_cache_are_followed(tmp_path):
    blobs = make_folder(tmp_path / "blobs", {"weights": ONE})
    snapshot = make_folder(tmp_path / "snapshots" / "abc", {})
    (snapshot / SINGLE).symlink_to(Path("../../blobs/weights"))
    (snapshot / "generation_config.json").symlink_to(Path("../../blobs/config.json"))
    opened = open_checkpoint(snapshot)
    assert blobs.exists()
    assert set(opened.tensors) == {"a"}


def test_linked_folder_opens(tmp_path):
    make_folder(tmp_path / "real", {SINGLE: ONE})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert set(open_checkpoint(tmp_path / "link").tensors) == {"a"}


FOLDERS = {
    "no weights": ({}, "no safetensors file"),
    "pickles only": ({"pytorch_model.bin": b"x"}, "pickles"),
    "two files, no index": ({"a.safetensors": ONE, "b.safetensors": ONE}, "2 safetensors files"),
    "no model type": ({"config.json": {"a": 1}, SINGLE: ONE}, "model_type"),
    "config a list": ({"config.json": b"[]", SINGLE: ONE}, "should hold an object"),
    "config nested deep": ({"config.json": b"[" * 200_000, SINGLE: ONE}, "nested too deep"),
    "config of digits": ({"config.json": b'{"a": ' + b"9" * 9999 + b"}", SINGLE: ONE}, "not JSON"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_incomplete_folder(tmp_path, case):
    files, message = FOLDERS[case]
    with pytest.raises(ModelError, match=message):
        open_checkpoint(make_folder(tmp_path / "m", files))


def test_folder_of_gguf_files(golden, tmp_path):
    with pytest.raises(ModelNotFoundError, match="no file or folder"):
        open_checkpoint(tmp_path / "absent")
    with pytest.raises(FormatError, match=r"is an empty folder"):
        open_checkpoint(tmp_path)
    for path in (golden / "gguf").glob("split-*.gguf"):
        shutil.copy(path, tmp_path)
    assert len(open_checkpoint(tmp_path).files) == 2
    shutil.copy(golden / "gguf_models" / "llama_q4_0.gguf", tmp_path)
    with pytest.raises(FormatError, match="several models: llama_q4_0"):
        open_checkpoint(tmp_path)


def test_a_type_that_is_not_executed_is_kept_and_named(golden):
    """Which types are executed is known where the tensor is used."""
    folder = open_checkpoint(golden / "tiny" / "llama")
    name = "model.layers.0.mlp.up_proj.weight"
    wrong = replace(folder.tensors[name], type="F8_E4M3")
    with pytest.raises(UnsupportedError, match="F8_E4M3"):
        build_plan(as_model(replace(folder, tensors={**folder.tensors, name: wrong})))
