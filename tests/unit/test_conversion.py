"""Quantized files: what is in them, streaming, interruptions, and what goes wrong."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from pyrite import conversion
from pyrite.cli.main import main
from pyrite.conversion import convert, find_recipe, plan_conversion
from pyrite.errors import CapacityError, FormatError, ParameterError, TensorError
from pyrite.formats.checkpoint import Checkpoint, StringTable, Tensor, open_checkpoint
from pyrite.formats.gguf import read_gguf
from pyrite.formats.gguf_partial import PartialGguf
from pyrite.formats.gguf_writer import LARGE_TABLE, TensorSpec, header_fields, write_gguf
from pyrite.formats.imatrix import Importance, Sums
from pyrite.formats.mapping import forget
from pyrite.quant.dequant import dequantize
from pyrite.quant.quantize import quantize


def tensor(name, shape, seed=0, kind="F32"):
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    data = quantize(values.reshape(-1, shape[-1]), kind).reshape(-1)
    return Tensor(name, kind, shape, data)


def checkpoint(tensors, files=()):
    metadata = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": 2,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "split.count": 3,
    }
    return Checkpoint(
        path=Path("tiny"),
        format="gguf",
        architecture="llama",
        metadata=metadata,
        tensors={one.name: one for one in tensors},
        files=tuple(files),
    )


@pytest.fixture
def model(tmp_path):
    stamp = tmp_path / "source"
    stamp.write_bytes(b"weights")
    return checkpoint(
        [
            tensor("token_embd.weight", (96, 256), 1),
            tensor("output.weight", (96, 256), 2, "F16"),
            tensor("blk.0.attn_norm.weight", (256,), 3, "BF16"),
            tensor("blk.0.attn_q.weight", (40, 256), 4, "BF16"),
            tensor("blk.0.ffn_gate_inp.weight", (3, 256), 5, "BF16"),
            tensor("blk.0.ffn_gate_exps.weight", (3, 20, 256), 6),
            tensor("blk.0.ffn_down_exps.weight", (3, 32, 96), 7, "Q8_0"),
            tensor("blk.1.attn_q.weight", (40, 256), 8, "Q4_K"),
        ],
        [stamp],
    )


def importance(entries, path="calibration.gguf"):
    return Importance(Path(path), ("text.txt",), 5, 512, entries)


def values_of(one):
    data = one.read()
    return dequantize(data, one.type, one.shape)


def written(model, out, recipe="q4_k_m", known=None, threads=2):
    convert(plan_conversion(model, find_recipe(recipe), known), out, threads)
    return open_checkpoint(out)


def test_a_file_holds_what_the_recipe_says(model, tmp_path):
    found = written(model, tmp_path / "out.gguf")
    assert {name: one.type for name, one in found.tensors.items()} == {
        "token_embd.weight": "Q4_K",
        "output.weight": "Q6_K",
        "blk.0.attn_norm.weight": "F32",
        "blk.0.attn_q.weight": "Q4_K",
        "blk.0.ffn_gate_inp.weight": "F32",
        "blk.0.ffn_gate_exps.weight": "Q4_K",
        "blk.0.ffn_down_exps.weight": "Q5_0",
        "blk.1.attn_q.weight": "Q4_K",
    }
    for name, one in found.tensors.items():
        source = model.tensors[name]
        assert one.shape == source.shape
        if one.type == source.type:
            np.testing.assert_array_equal(one.read(), source.read())
        else:
            rows = values_of(source).reshape(-1, one.shape[-1])
            np.testing.assert_array_equal(one.read(), quantize(rows, one.type).reshape(-1))
    assert found.metadata["general.name"] == "tiny"
    assert found.metadata["general.file_type"] == 15
    assert found.metadata["general.quantization_version"] == 2
    assert "split.count" not in found.metadata
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out.gguf"]


def test_slabs_and_threads_change_nothing(model, tmp_path, monkeypatch):
    written(model, tmp_path / "one.gguf", threads=1)
    monkeypatch.setattr(conversion, "SLAB_VALUES", 7 * 256)
    written(model, tmp_path / "other.gguf", threads=3)
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "other.gguf").read_bytes()


def test_importance_is_of_each_matrix_of_a_stack(model, tmp_path):
    rng = np.random.default_rng(0)
    squares = rng.lognormal(0, 2, (3, 256)).astype(np.float32)
    known = importance(
        {
            "blk.0.ffn_gate_exps.weight": Sums(squares, np.array([4, 0, 2], np.float32)),
            "blk.0.attn_q.weight": Sums(squares[:1], np.array([1], np.float32)),
        }
    )
    found = written(model, tmp_path / "out.gguf", known=known)
    blocks = found.tensors["blk.0.ffn_gate_exps.weight"]
    rows = values_of(model.tensors[blocks.name])
    for matrix, weights in enumerate((squares[0] / 4, None, squares[2] / 2)):
        expected = quantize(rows[matrix], "Q4_K", weights)
        np.testing.assert_array_equal(blocks.read(matrix * 20, 20), expected.reshape(-1))
    assert found.metadata["quantize.imatrix.file"] == "calibration.gguf"
    assert found.metadata["quantize.imatrix.dataset"] == "text.txt"
    assert found.metadata["quantize.imatrix.entries_count"] == 2
    assert found.metadata["quantize.imatrix.chunks_count"] == 5


def test_importance_of_another_model_is_refused(model):
    known = importance({"blk.0.attn_q.weight": Sums(np.ones((1, 64), np.float32), np.ones(1))})
    with pytest.raises(FormatError, match=r"64 columns of blk.0.attn_q.weight, and the model 256"):
        plan_conversion(model, find_recipe("q4_k_m"), known)


def sums(columns=256):
    return Sums(np.ones((1, columns), np.float32), np.ones(1, np.float32))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["blk.0.attn_q.weight", "blk.7.attn_q.weight"], r"1 tensors .* not: blk.7.attn_q.weight"),
        (["token_embd.weight"], "nothing of 2 layers of the model: blk.0, blk.1"),
        (["blk.0.attn_q.weight"], "nothing of 1 layers of the model: blk.1"),
    ],
)
def test_importance_of_other_layers_is_of_another_model(model, entries, message):
    known = importance({name: sums() for name in entries})
    with pytest.raises(FormatError, match=message) as caught:
        plan_conversion(model, find_recipe("q8_0"), known)
    assert "another model" in caught.value.hint
    whole = ["output.weight", "blk.0.attn_q.weight", "blk.1.attn_q.weight"]
    plan_conversion(model, find_recipe("q8_0"), importance({name: sums() for name in whole}))


class Stopped(BaseException):
    pass


def interrupted_after(count, model, out, monkeypatch):
    """Runs until `count` tensors are finished."""
    finish = PartialGguf.finish

    def stop(self, name):
        finish(self, name)
        if len(self.finished) == count:
            raise Stopped

    monkeypatch.setattr(PartialGguf, "finish", stop)
    with pytest.raises(Stopped):
        written(model, out)
    monkeypatch.setattr(PartialGguf, "finish", finish)


def test_an_interrupted_run_goes_on(model, tmp_path, monkeypatch):
    written(model, tmp_path / "whole.gguf")
    out = tmp_path / "out.gguf"
    interrupted_after(3, model, out, monkeypatch)
    assert not out.exists()
    done = []
    read = Tensor.read
    monkeypatch.setattr(Tensor, "read", lambda self, *a: done.append(self.name) or read(self, *a))
    assert convert(plan_conversion(model, find_recipe("q4_k_m")), out, 1) == 3
    assert done[0] == "blk.0.attn_q.weight"  # the fourth
    assert out.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
    assert not list(tmp_path.glob("out.gguf.*"))


def test_what_was_killed_is_done_again_from_its_last_whole_tensor(model, tmp_path, monkeypatch):
    """No chance to write the journal's last lines, and a line that is cut short."""
    out = tmp_path / "out.gguf"
    interrupted_after(3, model, out, monkeypatch)
    journal = out.with_name("out.gguf.journal")
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:2]) + "\n" + lines[2][:5])
    assert convert(plan_conversion(model, find_recipe("q4_k_m")), out, 1) == 1


@pytest.mark.parametrize(
    ("part", "resumed", "told"),
    [
        ("header", 0, r"\(its header changed since\): all is written again"),
        ("size", 0, r"\(its size changed since\): all is written again"),
        ("output.weight", 2, r"\(output\.weight changed since\): that is written again"),
        ("blk.0.attn_norm.weight", 2, r"attn_norm\.weight changed since\): that is written again"),
    ],
)
def test_what_changed_meanwhile_is_written_again(model, tmp_path, monkeypatch, part, resumed, told):
    """A bit of a part that was whole; and a run that is interrupted after that found it."""
    whole = written(model, tmp_path / "whole.gguf")
    out, partial = tmp_path / "out.gguf", tmp_path / "out.gguf.partial"
    interrupted_after(3, model, out, monkeypatch)
    content = bytearray(partial.read_bytes())
    place = 40
    if part in whole.tensors:
        place = content.index(whole.tensors[part].read().tobytes()) + 11
    content[place] ^= 4
    partial.write_bytes(content + b"x" if part == "size" else content)
    plan, said = plan_conversion(model, find_recipe("q4_k_m")), []
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_written", interrupt)
        with pytest.raises(Stopped):
            convert(plan, out, 1, None, said.append)
    again = []
    found = convert(plan, out, 1, None, again.append) if partial.exists() else 0
    assert found == resumed
    assert not again
    assert re.search(told, *said)
    if resumed:
        assert out.read_bytes() == (tmp_path / "whole.gguf").read_bytes()
        assert not list(tmp_path.glob("out.gguf.*"))


def interrupt(*_):
    raise Stopped


@pytest.mark.parametrize("change", ["source", "recipe", "importance", "partial", "tensor"])
def test_a_changed_input_starts_anew(model, tmp_path, monkeypatch, change):
    out, recipe, known = tmp_path / "out.gguf", "q4_k_m", None
    interrupted_after(3, model, out, monkeypatch)
    if change == "source":
        os.utime(model.files[0], ns=(1, 1))
    if change == "recipe":
        recipe = "q4_k_s"
    if change == "importance":
        sums = Sums(np.ones((1, 256), np.float32), np.ones(1, np.float32))
        known = importance({"blk.0.attn_q.weight": sums})
    if change == "partial":
        out.with_name("out.gguf.partial").write_bytes(b"something else")
    if change == "tensor":
        model = checkpoint([*model.tensors.values(), tensor("x.weight", (2, 256))], model.files)
    assert convert(plan_conversion(model, find_recipe(recipe), known), out, 1) == 0
    fresh = tmp_path / "fresh.gguf"
    convert(plan_conversion(model, find_recipe(recipe), known), fresh, 1)
    assert out.read_bytes() == fresh.read_bytes()


def test_two_writers_of_one_file(tmp_path):
    out, specs = tmp_path / "out.gguf", [TensorSpec("a", "F32", (4,))]
    with PartialGguf(out, {}, specs, "one"), pytest.raises(ParameterError, match="no other"):
        PartialGguf(out, {}, specs, "two").__enter__()


def test_a_full_disk_says_what_is_needed_and_keeps_what_is_whole(model, tmp_path, monkeypatch):
    out = tmp_path / "out.gguf"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(CapacityError, match=r"out.gguf needs 1 MiB of disk, and \d+ MiB are free"):
        written(model, out)
    assert not list(tmp_path.glob("out*"))
    monkeypatch.undo()
    interrupted_after(2, model, out, monkeypatch)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(CapacityError):
        written(model, out)
    monkeypatch.undo()
    assert convert(plan_conversion(model, find_recipe("q4_k_m")), out, 1) == 2


def test_a_weight_that_is_not_finite_names_its_tensor_and_row(model, tmp_path):
    broken = model.tensors["token_embd.weight"].data.view(np.float32).reshape(96, 256)
    broken[70, 3] = np.nan
    message = r"token_embd.weight holds a value that is not finite: the first is nan, in row 70, c"
    with pytest.raises(TensorError, match=message):
        written(model, tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


BROKEN = {
    "kept as it is": ("blk.0.attn_q.weight", "bf16"),
    "made floats": ("token_embd.weight", "f16"),
    "a norm": ("blk.0.attn_norm.weight", "q8_0"),
    "quantized": ("blk.0.attn_q.weight", "q4_k_m"),
    "quantized before, and kept": ("blk.1.attn_q.weight", "q4_k_m"),
    "quantized before, and again": ("blk.1.attn_q.weight", "q8_0"),
    "float32 again": ("blk.0.attn_q.weight", "f32"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_whatever_a_value_becomes_it_has_to_be_finite(model, tmp_path, monkeypatch, case):
    """All are counted, those of later slabs too."""
    monkeypatch.setattr(conversion, "SLAB_VALUES", 8 * 256)
    name, recipe = BROKEN[case]
    one = model.tensors[name]
    row_bytes = len(one.data) // one.num_rows
    for row in (0,) if one.num_rows == 1 else (9, 30):
        start = row * row_bytes + (0 if one.type == "Q4_K" else 12)
        size = 4 if one.type == "F32" else 2
        one.data[start : start + size] = 255
    found = [values_of(one).reshape(-1, one.shape[-1])]
    count = int((~np.isfinite(found[0])).sum())
    with pytest.raises(TensorError) as caught:
        written(model, tmp_path / "out.gguf", recipe)
    said = str(caught.value)
    values = f"{count} values that are" if count > 1 else "a value that is"
    assert said.startswith(f"tensor {name} holds {values} not finite: the first is nan, in row ")
    assert f"in row {0 if one.num_rows == 1 else 9}, column" in said
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_value_beyond_its_type_is_told_by_its_row(model, tmp_path, monkeypatch):
    monkeypatch.setattr(conversion, "SLAB_VALUES", 8 * 256)
    rows = model.tensors["token_embd.weight"].data.view(np.float32).reshape(96, 256)
    rows[70, 3] = 1e9
    with pytest.raises(TensorError, match=r"token_embd.weight: row 70 holds .* beyond 65504"):
        written(model, tmp_path / "out.gguf")


@pytest.fixture
def golden_model(golden):
    return str(golden / "gguf_models" / "llama_q8_0.gguf")


def refused(capsys, *arguments):
    assert main(["quantize", *map(str, arguments)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    return shown


def test_the_command(golden_model, tmp_path, capsys):
    out = tmp_path / "out.gguf"
    assert main(["quantize", golden_model, str(out), "--type", "Q5_1", "-t", "2"]) == 0
    assert "bits a weight" in capsys.readouterr().out
    found = open_checkpoint(out)
    assert {one.type for one in found.tensors.values()} == {"F32", "Q5_1", "Q6_K"}
    assert main(["show", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] is None
    assert "--force" in refused(capsys, golden_model, out)
    before = out.stat().st_ino
    assert main(["quantize", golden_model, str(out), "--force"]) == 0
    assert out.stat().st_ino != before


def test_the_command_refuses_what_would_lose_or_not_find_a_file(golden_model, tmp_path, capsys):
    out = tmp_path / "out.gguf"
    assert "q4_k_m" in refused(capsys, golden_model, out, "--type", "q4")
    assert "ends in .gguf" in refused(capsys, golden_model, tmp_path / "out.bin")
    assert "a folder that is there" in refused(capsys, golden_model, tmp_path / "no" / "out.gguf")
    assert "made of" in refused(capsys, golden_model, golden_model, "--force")
    assert "1024" in refused(capsys, golden_model, out, "-t", "0")
    assert main(["quantize", golden_model, str(out), "--imatrix", golden_model]) == 3
    assert "no importance matrix" in capsys.readouterr().err


def test_what_was_read_of_a_mapped_file_is_given_back(golden_model, tmp_path):
    """And is there again when it is touched."""
    one = open_checkpoint(golden_model).tensors["output.weight"]
    before = one.read().copy()
    forget(one.read())
    np.testing.assert_array_equal(one.read(), before)
    own = np.arange(5000, dtype=np.uint8)
    forget(own)  # no map: the bytes would be lost
    forget(own[:0])
    np.testing.assert_array_equal(own, np.arange(5000, dtype=np.uint8))


def test_a_large_table_of_strings_is_written_as_it_lies(tmp_path):
    words = [f"word {index}" * (index % 3) for index in range(LARGE_TABLE)]
    write_gguf(tmp_path / "one.gguf", {"x.words": words}, [], lambda spec: np.empty(0, np.uint8))
    table = read_gguf(tmp_path / "one.gguf").metadata["x.words"]
    fields = header_fields({"x.words": table}, [])
    assert len(fields) < 20
    assert b"".join(one.data for one in fields) == (tmp_path / "one.gguf").read_bytes()
    moved = StringTable(table.data[8:], table.starts - 8, table.lengths)
    assert b"".join(one.data for one in header_fields({"x.words": moved}, [])) == b"".join(
        one.data for one in fields
    )
    gap = StringTable(table.data, table.starts[::2], table.lengths[::2])
    assert len(header_fields({"x.words": gap}, [])) > LARGE_TABLE
