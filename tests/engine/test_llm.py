"""The door for Python, over scripted logits: what it returns, refuses, shares and gives back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scripted import EOS, MARKER, VOCABULARY, assert_idle, hashed, script, scripted_model

import pyrite
from pyrite.errors import (
    BackendError,
    CapacityError,
    ContextLengthError,
    ModelNotFoundError,
    ParameterError,
)
from pyrite.llm import Model
from pyrite.sampling.params import SamplingParams


@pytest.fixture
def model() -> Iterator[Model]:
    """Idle again after each test, every page free."""
    loaded = scripted_model()
    yield loaded
    gc.collect()
    with loaded._driver.exclusive() as engine:
        assert_idle(engine)
    assert not loaded._driver._inboxes


def test_a_completion_is_text_and_how_it_came_about() -> None:
    model = scripted_model(script("q:", [*b"yes", EOS]))
    answer = model.generate("q:", temperature=0, logprobs=2)
    assert answer == answer.text == "yes"
    assert answer.token_ids == (*b"yes", EOS)
    assert answer.finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (2, 4)
    assert answer.timings.prompt_seconds > 0
    assert answer.error is None
    assert len(answer.logprobs) == 4
    assert [len(entry.top) for entry in answer.logprobs] == [2] * 4


def test_ids_and_text_are_the_same_prompt(model: Model) -> None:
    text = model.generate("abc", temperature=0, max_tokens=5)
    assert model.generate([97, 98, 99], temperature=0, max_tokens=5) == text
    assert model.generate(np.array([97, 98, 99]), temperature=0, max_tokens=5) == text


def test_streamed_is_generated(model: Model) -> None:
    whole = model.generate("abc", temperature=0, max_tokens=9)
    deltas = list(model.stream("abc", temperature=0, max_tokens=9))
    assert "".join(delta.text for delta in deltas) == whole
    assert deltas[-1].finish_reason == "length"


def test_batch_is_each_alone(model: Model) -> None:
    prompts = ["one", "another", [1, 2, 3], "x" * 200]
    together = model.batch(prompts, temperature=0, max_tokens=20)
    assert together == [model.generate(one, temperature=0, max_tokens=20) for one in prompts]
    each = [SamplingParams(temperature=0, max_tokens=count) for count in (1, 2, 3, 4)]
    assert [len(one.token_ids) for one in model.batch(prompts, params=each)] == [1, 2, 3, 4]
    with pytest.raises(ParameterError, match="params"):
        model.batch(prompts, params=each[:2])


def test_a_batch_with_a_prompt_that_cannot_be_asked(model: Model) -> None:
    with pytest.raises(ParameterError, match="prompt"):
        model.batch(["good", [], "fine"])
    with pytest.raises(ParameterError, match="prompts"):
        model.batch("one text is no list")


def test_one_of_a_batch_fails_on_the_way() -> None:
    def logits(history: tuple[int, ...]) -> Any:
        return hashed(history) * (np.nan if history[:3] == tuple(b"bad") else 1)

    model = scripted_model(logits)
    good, bad = model.batch(["good", "bad"], temperature=0, max_tokens=4)
    assert good == scripted_model().generate("good", temperature=0, max_tokens=4)
    assert bad.finish_reason == "error"
    assert isinstance(bad.error, BackendError)
    with pytest.raises(BackendError, match="finite"):
        model.generate("bad")
    with pytest.raises(BackendError, match="finite"):
        list(model.stream("bad"))


@pytest.mark.parametrize("steps", [0, 2])
def test_a_prompt_is_stopped_between_its_chunks(model: Model, steps: int) -> None:
    chunk = model.loaded.engine.runner.max_tokens
    stream = model.stream([1] * (3 * chunk), max_tokens=4)
    asked = iter([False] * steps + [True])
    last = stream.take(lambda: next(asked))
    assert last is not None
    assert last.usage is not None
    assert (last.finish_reason, last.token_ids) == ("cancelled", ())
    assert last.usage.completion_tokens == 0
    assert stream.take() is None
    assert not model.loaded.engine.has_work


@pytest.mark.parametrize("how", ["close", "with", "drop", "break"])
def test_a_stream_that_is_closed_early_is_cancelled(model: Model, how: str) -> None:
    engine = model.loaded.engine
    if how == "with":
        with model.stream("abc", max_tokens=100) as stream:
            next(stream)
    elif how == "break":
        for _ in model.stream("abc", max_tokens=100):
            break
    else:
        stream = model.stream("abc", max_tokens=100)
        next(stream)
        if how == "close":
            stream.close()
            stream.close()
            assert list(stream) == []
        del stream
    assert not engine.has_work


def test_a_stream_dropped_inside_a_step_is_cancelled_at_the_next_use(model: Model) -> None:
    stream = model.stream("abc", max_tokens=100)
    next(stream)
    with model._driver.exclusive() as engine:
        del stream  # as the garbage collector would, in the middle of anything
        assert engine.has_work
    assert model.generate("abc", max_tokens=1)
    assert not engine.has_work


def test_streams_may_be_read_in_turns(model: Model) -> None:
    expected = [model.generate(name, temperature=0, max_tokens=8) for name in ("a", "b")]
    pair = [model.stream(name, temperature=0, max_tokens=8) for name in ("a", "b")]
    turns = [[delta.text for delta in deltas] for deltas in zip(*pair, strict=True)]
    assert ["".join(texts) for texts in zip(*turns, strict=True)] == expected


def test_threads_share_a_model(model: Model) -> None:
    names = [f"thread {number}" for number in range(6)]
    expected = {name: model.generate(name, temperature=0, max_tokens=30) for name in names}
    answers: dict[str, Any] = {}
    threads = [
        threading.Thread(
            target=lambda name=name: answers.update(
                {name: model.generate(name, temperature=0, max_tokens=30)}
            )
        )
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == expected


def test_tokenize_and_back(model: Model) -> None:
    text = "a<marker>é"
    assert model.tokenize(text) == list(text.encode())
    assert model.tokenize(text, special=True) == [97, MARKER, *"é".encode()]
    assert model.detokenize([97, MARKER, 98]) == "ab"
    assert model.detokenize([97, MARKER, 98], special=True) == "a<marker>b"
    with pytest.raises(ParameterError, match="text = 5: must be a string"):
        model.tokenize(5)  # type: ignore[arg-type]


def test_markers_in_a_prompt_stay_text_unless_asked(model: Model) -> None:
    plain = model.generate("<marker>", max_tokens=1)
    special = model.generate("<marker>", max_tokens=1, special=True)
    assert (plain.usage.prompt_tokens, special.usage.prompt_tokens) == (8, 1)


def test_logits(model: Model) -> None:
    ids = list(b"some text that is longer than one chunk of rows, to be sure")
    logits = model.logits(ids)
    assert logits.shape == (len(ids), VOCABULARY)
    assert logits.dtype == np.float32
    for row, found in enumerate(logits):
        np.testing.assert_array_equal(found, hashed(tuple(ids[: row + 1])))
    assert len(model.logits([1] * 512)) == 512
    with pytest.raises(ContextLengthError, match="513"):
        model.logits([1] * 513)
    with pytest.raises(ParameterError):
        model.logits([])


def test_logits_when_requests_hold_the_pages() -> None:
    model = scripted_model(num_pages=2)
    with model.stream("x" * 40, max_tokens=10) as stream:
        next(stream)
        with pytest.raises(CapacityError, match="0 are free"):
            model.logits([1])
    assert model.logits([1]).shape == (1, VOCABULARY)


@pytest.mark.parametrize(
    ("prompt", "given", "match"),
    [
        ("", {}, "prompt"),
        ([], {}, "prompt"),
        (["a"], {}, "prompt"),
        ([1.5], {}, "prompt"),
        (3, {}, "prompt"),
        (None, {}, "prompt"),
        (b"bytes", {}, "prompt"),
        ([True, False], {}, "prompt"),
        ({1: 2}, {}, "prompt"),
        ({1, 2}, {}, "prompt"),
        ("a", {"temperature": -1}, "temperature"),
        ("a", {"temprature": 1}, "did you mean temperature"),
        ("a", {"max_tokens": 0}, "max_tokens"),
        ("a\ud83d", {}, "surrogate"),
    ],
)
def test_what_is_refused(model: Model, prompt: Any, given: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        model.generate(prompt, **given)


def test_params_as_a_whole_and_keywords_over_them(model: Model) -> None:
    params = SamplingParams(temperature=0, max_tokens=3)
    assert len(model.generate("a", params=params).token_ids) == 3
    assert len(model.generate("a", params=params, max_tokens=5).token_ids) == 5


def test_chat_without_a_template(model: Model) -> None:
    with pytest.raises(pyrite.errors.TemplateError, match="no chat template"):
        model.chat("Hi")


TEMPLATE = "{% for m in messages %}<marker>{{ m.role }}:{{ m.content }}{% endfor %}"


def test_chat() -> None:
    prompt = [MARKER, *b"user:<marker>Hi"]
    model = scripted_model(script(prompt, [*b"Hello", EOS]), template=TEMPLATE)
    assert model.chat_ids("<marker>Hi") == prompt, "what a user typed is no control token"
    assert model.chat("<marker>Hi", temperature=0) == "Hello"
    messages = [{"role": "user", "content": "<marker>Hi"}]
    assert "".join(one.text for one in model.chat_stream(messages, temperature=0)) == "Hello"


ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}
CALLING = "{% for m in messages %}{{ m.content }}{% endfor %}{# <think> </think> #}"


def test_chat_with_reasoning_and_tools() -> None:
    ping = {"type": "function", "function": {"name": "ping"}}
    said = '<think>hm</think>Yes.\n<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
    prompt = scripted_model(template=CALLING).chat_ids("Hi", tools=[ping])
    model = scripted_model(script(prompt, [*said.encode(), EOS]), template=CALLING)
    answer = model.chat("Hi", temperature=0, tools=[ping])
    assert answer == "Yes."
    assert answer.reasoning == "hm"
    (call,) = answer.tool_calls
    assert (call.name, call.arguments) == ("ping", "{}")
    assert answer.finish_reason == "stop"
    assert answer.usage.completion_tokens == len(said) + 1
    raw = model.chat_stream("Hi", temperature=0, tools=[ping])
    assert "".join(delta.text for delta in raw) == said
    model = scripted_model(script("Hi", [*said.encode(), EOS]), template=CALLING)
    plain = model.chat("Hi", temperature=0, tools=[ping], tool_choice="none")
    assert plain == said.removeprefix("<think>hm</think>")
    assert plain.tool_calls == ()


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_a_call_that_is_forced(choice: Any) -> None:
    model = scripted_model(template=CALLING)
    asked = {"tools": [ADD], "tool_choice": choice, "parallel_tool_calls": False}
    answer = model.chat("Hi", **asked, temperature=0, max_tokens=400)
    assert answer == ""
    assert [call.name for call in answer.tool_calls] == ["add"]


def test_a_choice_that_cannot_be_made() -> None:
    model = scripted_model(template=CALLING)
    with pytest.raises(ParameterError, match="tool_choice"):
        model.chat("Hi", tools=[ADD], tool_choice={"function": {"name": "sub"}})


def test_a_closed_model() -> None:
    with scripted_model() as model:
        stream = model.stream("abc", max_tokens=100)
        next(stream)
    for use in (lambda: model.generate("a"), lambda: next(stream), lambda: model.logits([1])):
        with pytest.raises(BackendError, match="closed"):
            use()
    stream.close()
    model.close()


def test_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    model = scripted_model()
    monkeypatch.setattr(os, "getpid", lambda: -5)
    with pytest.raises(BackendError, match="forked"):
        model.generate("a")
    model.close()


def test_no_such_file() -> None:
    with pytest.raises(ModelNotFoundError):
        pyrite.load("/no/such/model.gguf")
    with pytest.raises(ModelNotFoundError, match="an empty name"):
        pyrite.load("")
    with pytest.raises(ParameterError, match="model = None"):
        pyrite.load(None)  # type: ignore[arg-type]


def test_importing_pyrite_is_light() -> None:
    script = "import sys, pyrite; pyrite.__dir__(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
    assert pyrite.Model is Model
    with pytest.raises(AttributeError, match="nonsense"):
        pyrite.nonsense  # noqa: B018
