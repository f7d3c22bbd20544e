"""A model without a tokenizer, a folder or the file that is made of it: ids go in, ids come out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import pyrite
from pyrite.cli.main import main
from pyrite.errors import FormatError, NoTokenizerError, ParameterError, UnsupportedError
from pyrite.formats.folder_text import end_ids as end_ids_of
from pyrite.loading import end_ids
from pyrite.server.errors import status_of

CASES = ("llama", "qwen2_tied_swa", "gemma3_text")


@pytest.fixture(params=["folder", "file"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def model_of(golden: Path, tmp_path: Path, case: str, kind: str) -> Path:
    folder, file = golden / "tiny" / case, tmp_path / "model.gguf"
    if kind == "folder":
        return folder
    assert main(["convert", str(folder), str(file)]) == 0
    return file


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("case", CASES)
def test_it_gives_logits_and_continues_ids(
    golden: Path, tmp_path, monkeypatch, case, backend, kind
):
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    expected = np.load(golden / "tiny" / case / "expected.npz")
    with pyrite.load(model_of(golden, tmp_path, case, kind), backend=backend) as model:
        logits = model.logits(expected["ids_1"])
        worst = np.abs(logits - expected["logits_1"]).max() / expected["logits_1"].std()
        assert worst < 6e-3
        answer = model.generate(
            expected["ids_1"], max_tokens=4, temperature=0, ignore_eos=True, logprobs=2
        )
        assert answer == ""
        assert answer.token_ids[0] == expected["greedy"][0]


def test_both_end_where_the_folder_says(golden: Path, tmp_path: Path):
    ends = []
    for kind in ("folder", "file"):
        with pyrite.load(model_of(golden, tmp_path, "llama", kind), backend="reference") as model:
            ends.append(model.tokenizer.eos_ids)
            end = model.tokenizer.eos_ids[0]
            answer = model.generate([5, 6], max_tokens=4, logit_bias={end: 100.0})
            assert (answer.finish_reason, answer.token_ids) == ("stop", (end,))
    assert ends[0] == ends[1] != ()


def test_texts_are_refused_in_words(golden: Path, tmp_path: Path, kind: str):
    with pyrite.load(model_of(golden, tmp_path, "llama", kind), backend="reference") as model:
        with pytest.raises(UnsupportedError, match="token ids"):
            model.generate("text")
        with pytest.raises(UnsupportedError, match="token ids"):
            model.detokenize([1])
        with pytest.raises(ParameterError, match="from 0 to 383"):
            model.generate([384])
        with pytest.raises(ParameterError, match=r"stop = .*stop_token_ids"):
            model.generate([5], stop="a")
        assert status_of(NoTokenizerError("no text")) == 400


def test_the_command_line_says_so_and_measures(
    golden: Path, tmp_path: Path, kind: str, capsys, monkeypatch
):
    monkeypatch.setattr("pyrite.cli.run.whole_prompt", lambda given, terminal: given)
    path = str(model_of(golden, tmp_path, "llama", kind))
    told = capsys.readouterr().err
    assert ("for token ids alone" in told) == (kind == "file")
    assert main(["run", path, "hi", "-n", "2"]) == 3
    assert "only token ids go in" in capsys.readouterr().err
    assert main(["tokenize", path, "hi"]) == 3
    assert "holds no tokenizer" in capsys.readouterr().err
    assert main(["show", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problem"] is None
    arguments = ["bench", path, "-p", "8", "-n", "2", "-r", "1", "-o", "json", "-t", "1"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)


def test_the_doctor_finds_no_fault_in_it(golden: Path, tmp_path: Path, kind: str, capsys):
    path = str(model_of(golden, tmp_path, "llama", kind))
    assert main(["doctor", path, "-t", "1"]) == 0
    said = capsys.readouterr().out
    assert "skipped tokenizer         none: token ids go in and come out" in said
    assert "ok      end of answer     token 2, by its id alone" in said
    assert "ok      numbers" in said


def test_the_doctor_says_where_nothing_ends_an_answer(golden: Path, tmp_path: Path, capsys):
    folder = tmp_path / "model"
    shutil.copytree(golden / "tiny" / "llama", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "eos_token_id": None}))
    (folder / "generation_config.json").unlink(missing_ok=True)
    assert main(["doctor", str(folder), "-t", "1"]) == 0
    said = capsys.readouterr().out
    assert "skipped end of answer     the model names no token that ends an answer" in said


def test_a_tokenizer_of_an_unknown_kind_is_no_absent_one(golden: Path, tmp_path: Path):
    path = model_of(golden, tmp_path, "llama", "file")
    data = path.read_bytes()
    assert data.count(b"none") == 1
    path.write_bytes(data.replace(b"none", b"bert"))
    with pytest.raises(UnsupportedError, match="of kind 'bert'"):
        pyrite.load(path)


def test_ends_are_the_union_of_both_files():
    config = {"eos_token_id": 2, "generation_config": {"eos_token_id": [2, 7]}}
    assert end_ids(config) == (2, 7)
    assert end_ids({}) == ()


@pytest.mark.parametrize("value", [-1, True, "2", 2.5, [2, None, {}], [[2]]])
def test_what_is_no_id_of_an_end(value: object):
    with pytest.raises(FormatError, match=r"eos_token_id = .*must be a whole number from 0 on"):
        end_ids_of({"eos_token_id": value})
    with pytest.raises(FormatError):
        end_ids_of({"eos_token_id": 2, "generation_config": {"eos_token_id": value}})


def test_ids_of_an_end_from_both_files():
    config = {"eos_token_id": [7, 2], "generation_config": {"eos_token_id": 5}}
    assert end_ids_of(config) == (2, 5, 7)
    assert end_ids_of({"eos_token_id": None}) == ()
