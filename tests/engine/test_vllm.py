"""The door with vLLM's names: the same answers, under other names."""

from __future__ import annotations

from typing import Any

import pytest
from scripted import EOS, MARKER, hashed, script, scripted_model

import pyrite
from pyrite import vllm
from pyrite.errors import ParameterError
from pyrite.vllm import LLM, SamplingParams

TEMPLATE = "{% for m in messages %}<marker>{{ m.content }}{% endfor %}"


def door(monkeypatch: pytest.MonkeyPatch, **options: Any) -> LLM:
    model = scripted_model(**options)
    monkeypatch.setattr(vllm, "load", lambda *_, **__: model)
    return LLM(model="scripted", max_model_len=512)


def test_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = door(monkeypatch, logits=script("q:", [*b"yes", EOS]))
    (output,) = llm.generate("q:", SamplingParams(temperature=0, logprobs=1))
    assert output.prompt == "q:"
    assert output.prompt_token_ids == list(b"q:")
    assert output.finished
    assert output.outputs[0].text == "yes"
    assert output.outputs[0].token_ids == [*b"yes", EOS]
    assert output.outputs[0].finish_reason == "stop"
    assert output.outputs[0].logprobs is not None
    assert output.outputs[0].logprobs[0][ord("y")].rank == 1
    assert output.outputs[0].logprobs[0][ord("y")].decoded_token == "y"
    assert output.outputs[0].cumulative_logprob == pytest.approx(0, abs=1e-3)


def test_many_prompts_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = door(monkeypatch)
    prompts = ["a", {"prompt": "b"}, {"prompt_token_ids": [99]}]
    outputs = llm.generate(prompts, SamplingParams(temperature=0))
    assert [one.prompt_token_ids for one in outputs] == [[97], [98], [99]]
    assert [len(one.outputs[0].token_ids) for one in outputs] == [16] * 3, "vLLM's default"
    each = [SamplingParams(max_tokens=count, temperature=0) for count in (1, 2, 3)]
    lengths = [len(one.outputs[0].token_ids) for one in llm.generate(prompts, each)]
    assert lengths == [1, 2, 3]


def test_n_answers_with_a_seed_differ_and_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = door(monkeypatch, logits=lambda history: hashed(history) / 10)
    params = SamplingParams(n=3, seed=4, max_tokens=12)
    first, second = (llm.generate("tell", params)[0].outputs for _ in range(2))
    assert [one.index for one in first] == [0, 1, 2]
    assert len({one.text for one in first}) == 3
    assert first == second


def test_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = door(monkeypatch, template=TEMPLATE)
    talk = [{"role": "user", "content": "Hi"}]
    (one,) = llm.chat(talk, SamplingParams(temperature=0))
    assert one.prompt_token_ids == [MARKER, *b"Hi"]
    assert len(llm.chat([talk, talk], SamplingParams(temperature=0))) == 2


@pytest.mark.parametrize(
    ("given", "match"),
    [({"n": 0}, "n = 0"), ({"temperature": -1.0}, "temperature"), ({"top_k": -2}, "top_k")],
)
def test_what_is_refused(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        SamplingParams(**given)


def test_minus_one_is_all() -> None:
    assert SamplingParams(top_k=-1).translated().top_k == 0
    with pytest.raises(TypeError):
        SamplingParams(best_of=2)  # type: ignore[call-arg]


def test_the_first_doors_parameters_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = door(monkeypatch, logits=script("q:", [*b"yes", EOS]))
    (output,) = llm.generate("q:", pyrite.SamplingParams(temperature=0, max_tokens=2))
    assert output.outputs[0].text == "ye"
    with pytest.raises(ParameterError, match="a SamplingParams"):
        llm.generate("q:", {"temperature": 0})  # type: ignore[arg-type]
