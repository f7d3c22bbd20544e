"""A folder of safetensors with a tokenizer.json speaks text: in Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tests.library as library

import pyrite
from pyrite.cli.main import main
from pyrite.errors import FormatError, ParameterError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.sampling.grammar import Grammar
from pyrite.text.tokenizer import Tokenizer
from pyrite.vllm import LLM

PYRITE = [sys.executable, "-c", "from pyrite.cli.main import entry; entry()"]
HINTS = {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1, "max_new_tokens": 3}
GREEDY = {"temperature": 0, "repetition_penalty": 1.0, "max_tokens": 8, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("folders") / "speaks"
    return library.folder_of(golden / "tiny" / "llama", place, eos_token_id=[7, 377], **HINTS)


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    with pyrite.load(folder, backend="reference") as model:
        yield model


def test_text_goes_in_and_comes_out(model):
    answer = model.generate("the cat", **GREEDY)
    ids = model.tokenize("the cat")
    assert model.detokenize(ids) == "the cat"
    again = model.generate(ids, **GREEDY)
    assert answer.token_ids == again.token_ids
    assert str(answer) == model.detokenize(answer.token_ids)
    assert str(answer) != ""


def test_chats_are_rendered_by_the_folders_template(model):
    ids = model.chat_ids("hi <|im_end|>")
    start, end = (model.tokenizer.control_id(name) for name in ("<|im_start|>", "<|im_end|>"))
    assert ids.count(start) == 2
    assert ids.count(end) == 1
    assert model.chat("hi", **GREEDY).token_ids


def test_stop_tokens_are_the_union(model):
    assert set(model.tokenizer.stop_ids) >= {7, 377, model.tokenizer.control_id("<|im_end|>")}
    for stop in (7, 377):
        answer = model.generate("the cat", max_tokens=4, logit_bias={stop: 100.0})
        assert (answer.finish_reason, answer.token_ids) == ("stop", (stop,))


# What its maker samples with.


def test_the_makers_sampling_is_the_default(folder, model, monkeypatch):
    assert model.sampling_defaults == {"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.1}
    seen = []
    start = model.start
    monkeypatch.setattr(model, "start", lambda ids, params, **more: seen.append(params) or start(
        ids, params, **more))  # fmt: skip
    model.generate("a", max_tokens=1)
    model.chat("a", max_tokens=1, temperature=0, top_k=0)
    model.generate("a", params=pyrite.SamplingParams(max_tokens=1))
    told = [(one.temperature, one.top_k, one.repetition_penalty) for one in seen]
    assert told == [(0.6, 20, 1.1), (0.0, 0, 1.1), (1.0, 0, 1.0)]
    assert [one.max_tokens for one in seen] == [1, 1, 1]


def test_it_can_be_turned_off(folder):
    with pyrite.load(folder, backend="reference", generation_config="off") as model:
        assert model.sampling_defaults == {}
    with pytest.raises(ParameterError, match="generation_config"):
        pyrite.load(folder, generation_config="vllm")


def test_as_vllm_does(folder):
    llm = LLM(folder, backend="reference")
    asked = llm.get_default_sampling_params()
    assert (asked.temperature, asked.top_k, asked.repetition_penalty) == (0.6, 20, 1.1)
    llm.model.close()


@pytest.mark.parametrize(("field", "value"), [("temperature", -1), ("top_p", 7), ("top_k", "x")])
def test_sampling_out_of_bounds_is_refused_by_name(golden, tmp_path, field, value):
    folder = library.folder_of(golden / "tiny" / "llama", tmp_path / "m", **{field: value})
    with pytest.raises(FormatError, match=field):
        pyrite.load(folder, backend="reference")


def test_no_limit_to_candidates_may_be_minus_one(golden, tmp_path):
    folder = library.folder_of(golden / "tiny" / "llama", tmp_path / "m", top_k=-1)
    assert open_checkpoint(folder).sampling == {"top_k": 0}


# Embeddings are of whole texts.


def test_what_is_embedded_is_framed(golden, tmp_path):
    folder = library.folder_of(golden / "tiny" / "llama", tmp_path / "m")
    config = {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": True, "add_eos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.from_data(open_checkpoint(folder).tokenizer)
    bos, eos = tokenizer.control_id("<s>"), tokenizer.control_id("</s>")
    plain = tokenizer.encode("the cat").tolist()
    assert tokenizer.encode_whole("the cat").tolist() == [bos, *plain, eos]
    assert tokenizer.encode("the cat", bos=True).tolist() == [bos, *plain]


# On the command line.


def output(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def test_commands(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    found = json.loads(output(capsys, "tokenize", str(folder), "the <s> cat", "--json"))
    assert "".join(found["pieces"]) == "the <s> cat"
    special = json.loads(
        output(capsys, "tokenize", str(folder), "the <s> cat", "--json", "--special")
    )
    assert special["count"] < found["count"]
    text = output(capsys, "show", str(folder))
    assert "temperature 0.6, top_k 20, repetition_penalty 1.1" in text
    assert "pre-tokenizer gpt-2, 380 tokens, end of answer: 379, " in text
    facts = json.loads(output(capsys, "show", str(folder), "--json"))
    assert facts["sampling"]["top_k"] == 20
    done = subprocess.run(
        [*PYRITE, "run", str(folder), "hello", "--temp", "0", "-n", "4"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.endswith(b"\n")


def test_a_tokenizer_that_is_left_to_the_library_is_shown(golden, tmp_path, capsys):
    folder = library.folder_of(golden / "tiny" / "llama", tmp_path / "m")
    made = library.make("gpt-2", size=376)
    library.save(made, folder, lambda one: one.update(normalizer={"type": "Lowercase"}))
    assert "tokenizers library: it has the normalizer Lowercase" in output(
        capsys, "show", str(folder)
    )
    with pyrite.load(folder, backend="reference") as model:
        assert model.generate("FINE", **GREEDY).token_ids
        assert model.detokenize(model.tokenize("FINE")) == "fine"


def test_a_token_that_ends_is_no_text_of_a_grammar(model):
    """config.json may name one that has a text: it would end an answer in the midst of a string."""
    assert 7 in model.tokenizer.stop_ids
    assert model.tokenizer.token_bytes(7) == b"("
    grammar = Grammar("json_schema", '{"type": "string", "minLength": 4, "maxLength": 8}')
    answer = model.generate("the cat", grammar=grammar, logit_bias={7: 50.0}, max_tokens=64)
    assert len(json.loads(str(answer))) in range(4, 9)
