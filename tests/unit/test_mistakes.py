"""What people get wrong with a model's files: the message names the cause, its value, the mend."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tests.library as library
from safetensors.numpy import save_file

import pyrite
from pyrite.cli.main import main
from pyrite.errors import FormatError, ModelError, PyriteError, TensorError, UnsupportedError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.models.registry import build_plan, open_model
from pyrite.quant.dequant import dequantize

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)
Place = Callable[[Path, Path], Path]  # golden, a folder that is there -> what is given as a model


def folder(case: str = "llama", **changes: Any) -> Place:
    """A golden folder whose config.json says something else; None: nothing."""

    def make(golden: Path, place: Path) -> Path:
        path = place / "model"
        shutil.copytree(golden / "tiny" / case, path)
        config = json.loads((path / "config.json").read_text()) | changes
        kept = {key: value for key, value in config.items() if value is not None}
        (path / "config.json").write_text(json.dumps(kept))
        return path

    return make


def without(pattern: str, case: str = "llama", rename: str = "") -> Place:
    """A folder that lacks the last file of a pattern, or has it under another name."""

    def make(golden: Path, place: Path) -> Path:
        path = folder(case)(golden, place)
        file = max(path.glob(pattern))
        file.rename(file.with_name(rename)) if rename else file.unlink()
        return path

    return make


def holding(name: str, data: bytes) -> Place:
    def make(golden: Path, place: Path) -> Path:
        path = folder()(golden, place)
        (path / name).write_bytes(data)
        return path

    return make


def float8(golden: Path, place: Path) -> Path:
    """Weights of 8 bits, and not a word of scales."""
    path = folder()(golden, place)
    name = "model.layers.1.mlp.up_proj.weight"
    kept = {
        one.name: dequantize(one.read(), one.type, one.shape)
        for one in open_checkpoint(path).tensors.values()
    }
    save_file(kept | {name: np.ones(kept[name].shape, np.uint8)}, path / "model.safetensors")
    file = path / "model.safetensors"
    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end].replace(b'"U8"', b'"F8_E4M3"')
    file.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])
    return path


def several_files(golden: Path, place: Path) -> Path:
    path = without("model.safetensors")(golden, place)
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(golden / "gguf_models" / "llama_q8_0.gguf", path / name)
    return path


def only(*names: str) -> Place:
    """A folder of empty files."""

    def make(golden: Path, place: Path) -> Path:
        path = place / "model"
        path.mkdir()
        for name in names:
            (path / name).touch()
        return path

    return make


def cut_short(golden: Path, place: Path) -> Path:
    path = folder("llama_sharded")(golden, place)
    shard = max(path.glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[: shard.stat().st_size // 2])
    return path


def another_shard(golden: Path, place: Path) -> Path:
    path = folder("llama_sharded")(golden, place)
    index = next(path.glob("*.index.json"))
    table = json.loads(index.read_text())
    table["weight_map"][next(iter(table["weight_map"]))] = "model-00009-of-00009.safetensors"
    index.write_text(json.dumps(table))
    return path


def dangling(golden: Path, place: Path) -> Path:
    path = without("model.safetensors")(golden, place)
    (path / "model.safetensors").symlink_to(place / "gone")
    return path


def cached(golden: Path, place: Path) -> Path:
    path = place / "models--user--name"
    (path / "snapshots" / "0123abc").mkdir(parents=True)
    return path


def gguf(metadata: dict[str, Any], *specs: TensorSpec) -> Place:
    def make(golden: Path, place: Path) -> Path:
        path = place / "file.gguf"
        write_gguf(path, metadata, specs, lambda spec: np.zeros(spec.num_bytes, np.uint8))
        return path

    return make


def file(name: str, data: bytes) -> Place:
    def make(golden: Path, place: Path) -> Path:
        (place / name).write_bytes(data)
        return place / name

    return make


def one_part(golden: Path, place: Path) -> Path:
    return Path(shutil.copy(golden / "gguf" / "split-00001-of-00002.gguf", place))


def later_part(golden: Path, place: Path) -> Path:
    shutil.copy(golden / "gguf" / "split-00002-of-00002.gguf", place)
    return place


MATRIX = TensorSpec("a.weight", "F32", (4, 4))
OF_ANOTHER = "config.json is of another model"
MISTAKES: dict[str, tuple[Place, type[ModelError], list[str]]] = {
    "key heads not stated": (
        folder(num_key_value_heads=None),
        TensorError,
        [
            "num_key_value_heads is not stated, which means 4 of width 16",
            "32 (2 heads)",
            OF_ANOTHER,
        ],
    ),
    "heads of a sister": (
        folder(num_attention_heads=8),
        TensorError,
        ["num_attention_heads = 8 of width 16: 128 rows", "attn_q.weight has 64 (4 heads)"],
    ),
    "a wider sister": (
        folder(hidden_size=128),
        TensorError,
        ["llama: hidden_size = 128, and token_embd.weight has 64; wrong shape", OF_ANOTHER],
    ),
    "a shallower sister": (
        folder(num_hidden_layers=2),
        TensorError,
        ["num_hidden_layers = 2, and the weights are of 3 layers; not used"],
    ),
    "a deeper sister": (
        folder(num_hidden_layers=5),
        TensorError,
        ["num_hidden_layers = 5, and the weights are of 3 layers; missing"],
    ),
    "another vocabulary": (
        folder(vocab_size=512),
        TensorError,
        ["vocab_size = 512, and token_embd.weight has 384"],
    ),
    "another feed-forward": (
        folder(intermediate_size=192),
        TensorError,
        ["intermediate_size = 192, and blk.0.ffn_up.weight has 160"],
    ),
    "another model_type": (
        folder(model_type="qwen2"),
        TensorError,
        ["model_type = 'qwen2', and architectures = 'LlamaForCausalLM'"],
    ),
    "no model_type": (
        folder(model_type=None),
        FormatError,
        ["model_type is missing", "no model's"],
    ),
    "tied by mistake": (folder(tie_word_embeddings=True), TensorError, ["is true", OF_ANOTHER]),
    "an encoder": (folder(model_type="bert"), UnsupportedError, ["'bert' is an encoder"]),
    "nothing like it": (
        folder(model_type="zzz"),
        UnsupportedError,
        ["'zzz' is not known here (all:"],
    ),
    "a shard too few": (
        without("model-*.safetensors", "llama_sharded"),
        FormatError,
        ["lacks 1 of 2 files that model.safetensors.index.json names: model-00002-of-00002"],
    ),
    "no index": (
        without("*.index.json", "llama_sharded"),
        FormatError,
        ["holds 2 safetensors files and no model.safetensors.index.json", "fetch the index"],
    ),
    "a shard that is cut short": (cut_short, FormatError, ["model-00002", "past the end", "again"]),
    "an index of another model": (another_shard, FormatError, ["lacks 1 of 3", "model-00009"]),
    "a pointer of Git LFS for weights": (
        holding("model.safetensors", POINTER),
        FormatError,
        ["model.safetensors", "Git LFS pointer", "git lfs pull"],
    ),
    "one for the tokenizer": (
        holding("tokenizer.json", POINTER),
        FormatError,
        ["tokenizer.json is not JSON: it looks like a Git LFS pointer", "git lfs pull"],
    ),
    "one for config.json": (
        holding("config.json", POINTER),
        FormatError,
        ["config.json is not JSON: it looks like a Git LFS pointer", "git lfs pull"],
    ),
    "one for a GGUF file": (file("m.gguf", POINTER), FormatError, ["Git LFS pointer", "lfs pull"]),
    "a page for config.json": (
        holding("config.json", b"<!DOCTYPE html><html>"),
        FormatError,
        ["config.json is not JSON: it looks like an HTML page", "fetch it again"],
    ),
    "pickles alone": (
        without("model.safetensors", rename="pytorch_model.bin"),
        FormatError,
        ["holds no safetensors file, but pytorch_model.bin", "never read"],
    ),
    "no weights": (without("model.safetensors"), FormatError, ["holds no safetensors file (fetch"]),
    "a link to nothing": (dangling, FormatError, ["is a link to", "gone, which is not there"]),
    "an empty folder": (only(), FormatError, ["is an empty folder"]),
    "a tokenizer alone": (only("tokenizer.json"), FormatError, ["without config.json"]),
    "weights alone": (
        only("model.safetensors"),
        FormatError,
        ["holds model.safetensors, and no config.json"],
    ),
    "pipelines": (only("model_index.json"), FormatError, ["a pipeline that makes images"]),
    "a folder of the hub's cache": (cached, FormatError, ["the hub's cache", "snapshots/0123abc"]),
    "an adapter beside a model's config.json": (
        only("config.json", "adapter_config.json", "adapter_model.safetensors"),
        FormatError,
        ["is an adapter, and no model"],
    ),
    "several GGUF files beside config.json": (
        several_files,
        FormatError,
        ["holds several models: a.gguf, b.gguf (name one of them)"],
    ),
    "8-bit floats without scales": (
        float8,
        UnsupportedError,
        ["type F8_E4M3: not executed", "quantization_config is missing"],
    ),
    "a part too few": (one_part, FormatError, ["missing: split-00002-of-00002.gguf"]),
    "a later part": (later_part, FormatError, ["split-00001-of-00002.gguf is missing"]),
    "an encoder of images": (
        gguf({"general.architecture": "clip", "general.type": "mmproj"}, MATRIX),
        FormatError,
        ["file.gguf is an encoder of images", "the language model's own file"],
    ),
    "a model that paints": (
        gguf({"general.architecture": "flux"}, MATRIX),
        UnsupportedError,
        ["'flux' is a model that makes images"],
    ),
    "importance": (
        gguf({"general.type": "imatrix"}, MATRIX),
        FormatError,
        ["the importance of columns, and no model", "--imatrix"],
    ),
    "a vocabulary": (gguf({"general.architecture": "llama"}), FormatError, ["holds no weights"]),
    "an adapter": (
        gguf({"general.architecture": "llama", "general.type": "adapter"}, MATRIX),
        FormatError,
        ["file.gguf is an adapter, and no model", "--lora"],
    ),
    "an adapter's folder": (
        lambda golden, place: golden / "adapters" / "plain",
        FormatError,
        ["is an adapter, and no model", "--lora"],
    ),
    "a pickle": (
        file("m.pt", b"PK\3\4" + bytes(100)),
        FormatError,
        ["ZIP archive", "they can run code"],
    ),
    "a file before GGUF": (file("m.bin", b"tjgg" + bytes(99)), FormatError, ["GGJT", "convert"]),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_the_message_names_the_cause(golden: Path, tmp_path: Path, case: str) -> None:
    make, kind, words = MISTAKES[case]
    path = make(golden, tmp_path)
    with pytest.raises(PyriteError) as caught:
        build_plan(open_model(path))
    said = str(caught.value)
    assert type(caught.value) is kind, said
    assert [word for word in words if word not in said] == [], said
    assert len(said) < 600 + len(str(path)) or "all:" in said


def test_a_gguf_file_beside_config_json_is_the_model(golden: Path, tmp_path: Path) -> None:
    """As in repositories of GGUF files."""
    path = without("model.safetensors")(golden, tmp_path)
    shutil.copy(golden / "gguf_models" / "qwen2_q8_0.gguf", path / "model-q8.gguf")
    assert open_model(path).architecture == "qwen2"


def test_a_golden_folder_is_no_mistake(golden: Path, tmp_path: Path) -> None:
    build_plan(open_model(folder()(golden, tmp_path)))


@pytest.mark.parametrize("verb", ["quantize", "convert"])
def test_what_is_no_model_is_not_written_either(
    golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    make = MISTAKES["an adapter" if verb == "quantize" else "a wider sister"][0]
    path = make(golden, tmp_path)
    out = tmp_path / "out.gguf"
    assert main([verb, str(path), str(out)]) == 3
    assert capsys.readouterr().err.startswith("pyrite: error: ")
    assert not list(tmp_path.glob("out.gguf*"))


def tokenizer_with(golden: Path, place: Path, added: dict[str, int], *, merged: bool) -> Path:
    """A folder whose tokenizer has tokens that the model has no rows for."""
    path = library.folder_of(golden / "tiny" / "llama", place)
    data = json.loads((path / "tokenizer.json").read_text())
    if merged:
        data["model"]["vocab"] |= added
    else:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        data["added_tokens"] += [
            {"id": token_id, "content": text, "special": True, **flags}
            for text, token_id in added.items()
        ]
    (path / "tokenizer.json").write_text(json.dumps(data))
    return path


def test_a_tokenizer_of_another_model(golden: Path, tmp_path: Path) -> None:
    more = {f"word{index}": 380 + index for index in range(60)}
    path = tokenizer_with(golden, tmp_path / "model", more, merged=True)
    with pytest.raises(FormatError, match="has 440 tokens, and the model 384") as caught:
        pyrite.load(path, backend="reference")
    assert "of another model" in caught.value.hint


def test_an_added_token_without_a_row_is_refused_where_a_text_has_it(
    golden: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tokenizer_with(golden, tmp_path / "model", {"<pad>": 384}, merged=False)
    with pyrite.load(path, backend="reference") as model:
        assert "has 385 tokens, and the model 384" in caplog.text
        model.generate("the cat", max_tokens=1)
        with pytest.raises(PyriteError, match="from 0 to 383"):
            model.generate("the <pad>", max_tokens=1, special=True)
