"""Ollama's dialect over told events: exact lines, and what becomes of each field."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import build_gguf
from tests.server.told import EVERYTHING, Told, answer_of, ended, part, recut, started

from pyrite import __version__
from pyrite.errors import BackendError, FetchError, ParameterError
from pyrite.formats import hub
from pyrite.request import PositionLogprobs, TokenLogprob
from pyrite.sampling.grammar import Grammar
from pyrite.server.ask import ChatAsk, TextAsk
from pyrite.server.errors import HttpError
from pyrite.server.ollama import types
from pyrite.server.ollama.routes import routes
from pyrite.text.answer import CallArguments, CallStart, Content, Reasoning

DURATIONS = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")


@pytest.fixture
def told() -> Told:
    served = Told(routes)
    served.tell(*answer_of(Content("Hello")))
    return served


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "told", "messages": [{"role": "user", "content": "Hi"}], **fields}


def generate(**fields: Any) -> dict[str, Any]:
    return {"model": "told", "prompt": "Hi", **fields}


ASKED = {"/api/chat": chat, "/api/generate": generate}


def lines(told: Told, path: str = "/api/chat", **fields: Any) -> list[dict[str, Any]]:
    reply = told.post(path, ASKED[path](**fields))
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert reply.text.endswith("\n")
    return [json.loads(line) for line in reply.text.splitlines()]


def whole(told: Told, path: str = "/api/chat", **fields: Any) -> dict[str, Any]:
    reply = told.post(path, ASKED[path](stream=False, **fields))
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "application/json"
    return reply.json()  # type: ignore[no-any-return]


def refusal(told: Told, path: str, **fields: Any) -> str:
    reply = told.post(path, {"model": "told", **fields})
    assert reply.status_code == 400, reply.text
    assert list(reply.json()) == ["error"]
    return str(reply.json()["error"])


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    for name in (*DURATIONS[:2], "created_at"):
        answer.pop(name, None)
    return answer


def test_a_whole_chat(told: Told) -> None:
    answer = whole(told)
    assert answer["created_at"].endswith("Z")
    assert answer["total_duration"] >= 0
    assert timeless(answer) == {
        "model": "told",
        "message": {"role": "assistant", "content": "Hello"},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 10,
        "prompt_eval_duration": 250_000_000,
        "eval_count": 5,
        "eval_duration": 500_000_000,
    }


def test_a_whole_generation(told: Told) -> None:
    answer = timeless(whole(told, "/api/generate"))
    assert answer["response"] == "Hello"
    assert "message" not in answer
    assert answer["done_reason"] == "stop"


def test_a_stream_line_by_line(told: Told) -> None:
    told.tell(*answer_of(Reasoning("Hm"), Content("Hi"), CallStart(0, "c", "f"),
                         CallArguments(0, '{"a":'), CallArguments(0, "1}"),
                         reason="tool_calls"))  # fmt: skip
    told_lines = [timeless(line) for line in lines(told)]
    call = {"id": "c", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
    assert told_lines[:-1] == [
        {"model": "told", "message": message, "done": False}
        for message in (
            {"role": "assistant", "content": "", "thinking": "Hm"},
            {"role": "assistant", "content": "Hi"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        )
    ]
    assert told_lines[-1]["done"]
    assert told_lines[-1]["message"] == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_streamed_is_whole_at_every_split(told: Told, size: int) -> None:
    told.tell(*answer_of(*EVERYTHING, reason="tool_calls"))
    one = whole(told)["message"]
    told.tell(*answer_of(*recut(EVERYTHING, size), reason="tool_calls"))
    messages = [line["message"] for line in lines(told)]
    joined = {
        "role": "assistant",
        "content": "".join(message["content"] for message in messages),
        "thinking": "".join(message.get("thinking", "") for message in messages),
        "tool_calls": [call for message in messages for call in message.get("tool_calls", [])],
    }
    assert joined == one == whole(told)["message"]
    assert [call["function"]["index"] for call in one["tool_calls"]] == [0, 1]


def test_steps_without_words_are_not_told(told: Told) -> None:
    told.tell(started(), part(), part(Content("a")), part(), ended())
    assert len(lines(told)) == 2


@pytest.mark.parametrize(
    ("end", "reason"),
    [({}, "stop"), ({"reason": "length"}, "length"), ({"reason": "tool_calls"}, "stop"),
     ({"stopped_by": "x"}, "stop")],
)  # fmt: skip
def test_done_reasons(told: Told, end: Any, reason: str) -> None:
    told.tell(*answer_of(Content("a"), **end))
    assert whole(told)["done_reason"] == lines(told)[-1]["done_reason"] == reason


def test_the_prompt_counts_alike_on_hit_and_miss(told: Told) -> None:
    for cached in (0, 9):
        told.tell(started(10, cached), part(Content("x")), ended(cached=cached))
        assert whole(told)["prompt_eval_count"] == 10


def test_logprobs(told: Told) -> None:
    own = TokenLogprob(72, -0.5)
    entry = PositionLogprobs(own, (own, TokenLogprob(73, -1.0)))
    told.tell(started(), part(Content("H"), logprobs=(entry,)), ended())
    fields = {"logprobs": True, "top_logprobs": 2}
    for answer in (whole(told, **fields), lines(told, **fields)[0]):
        (told_entry,) = answer["logprobs"]
        assert (told_entry["token"], told_entry["logprob"]) == ("H", -0.5)
        assert [top["token"] for top in told_entry["top_logprobs"]] == ["H", "I"]
    assert told.ask.params.logprobs == 2
    assert "logprobs" not in whole(told)
    assert told.ask.params.logprobs is None


@pytest.mark.parametrize("path", ASKED)
def test_nothing_asked_says_that_the_model_is_here(told: Told, path: str) -> None:
    for fields in ({}, {"stream": False}, {"keep_alive": 0}):
        reply = told.post(path, {"model": "told", **fields})
        answer = reply.json()
        assert (answer["done"], answer["done_reason"]) == (True, "load")
        assert told.service.asks == []
        assert ("keep_alive" in fields) == ("x-pyrite-ignored" in reply.headers)


# Errors


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ParameterError("top_k", 3, "less"), 400),
        (HttpError(429, "rate", "no", retry_after=2), 429),
        (RuntimeError("secret"), 500),
    ],
)
def test_errors_before_the_first_line(
    told: Told, path: str, stream: bool, error: Exception, status: int
) -> None:
    told.tell(error)
    reply = told.post(path, ASKED[path](stream=stream))
    assert reply.status_code == status
    assert list(reply.json()) == ["error"]
    assert "secret" not in reply.text


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("max_tokens", "options.num_predict"),
        ("seed", "options.seed"),
        ("json_schema", "format"),
        ("messages", "messages"),
    ],
)
def test_fields_are_told_by_this_dialects_names(told: Told, name: str, theirs: str) -> None:
    told.tell(ParameterError(name, 3, "less"))
    reply = told.post("/api/chat", chat())
    assert reply.json() == {"error": f"{theirs} = 3: must be less"}


def test_an_error_after_the_first_line_is_the_last_line(told: Told) -> None:
    told.tell(started(), part(Content("Hel")), BackendError("broken", hint="ask again"))
    first, last = lines(told)
    assert first["message"]["content"] == "Hel"
    assert last == {"error": "broken (ask again)"}
    assert told.service.closed


@pytest.mark.parametrize("path", [*ASKED, "/api/show", "/api/embed"])
def test_a_model_of_another_name_is_not_found(told: Told, path: str) -> None:
    reply = told.post(path, {"model": "other", "input": "x"})
    assert reply.status_code == 404
    assert "there is no model 'other'" in reply.json()["error"]


@pytest.mark.parametrize("name", ["told", "told:latest", "alias", "alias:latest"])
def test_names_may_have_their_tag(told: Told, name: str) -> None:
    assert whole(told, model=name)["model"] == name


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/api/chat", {"messages": 3}, "messages = 3"),
        ("/api/chat", {"messages": [{"content": "x"}]}, "messages[0].role"),
        ("/api/chat", {"messages": [{"role": "user", "images": ["x"]}]}, "messages[0].images"),
        ("/api/chat", chat(options={"temperature": 3}), "options.temperature = 3"),
        ("/api/chat", chat(options={"num_predict": 0}), "options.num_predict = 0"),
        ("/api/chat", chat(options={"num_predict": -3}), "options.num_predict = -3"),
        ("/api/chat", chat(options={"num_ctx": -1}), "options.num_ctx = -1"),
        ("/api/chat", {"messages": [{"role": "", "content": "x"}]}, "messages[0].role = ''"),
        ("/api/chat", chat(options={"repeat_penalty": -1}), "options.repeat_penalty = -1"),
        ("/api/chat", chat(options={"top_k": "x"}), "options.top_k = 'x'"),
        ("/api/chat", chat(options={"mirostat": 2}), "options.mirostat = 2"),
        ("/api/chat", chat(format="xml"), "format"),
        ("/api/chat", chat(format={"description": "x" * 2**21}), "format = "),
        ("/api/chat", chat(think="huge"), "think"),
        ("/api/chat", chat(logprobs=True, top_logprobs=21), "top_logprobs = 21"),
        ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "f", "arguments": "[1]"}}]}]},
         "messages[0].tool_calls[0].function.arguments"),
        ("/api/generate", {"prompt": "x", "template": "{{ .Prompt }}"}, "template = "),
        ("/api/generate", {"prompt": "x", "context": [1]}, "context = [1]"),
        ("/api/generate", {"prompt": "x", "images": ["x"]}, "images = "),
        ("/api/generate", {"prompt": "x", "raw": True, "system": "y"}, "system = 'y'"),
        ("/api/embed", {}, "input = None: must be given"),
        ("/api/show", {"model": None}, "model = None"),
        ("/api/pull", {"name": "x", "insecure": True}, "insecure = True"),
    ],
)  # fmt: skip
def test_refusals_name_field_and_value(told: Told, path: str, fields: Any, words: str) -> None:
    assert words in refusal(told, path, **fields)
    assert told.service.asks == []


# Fields


def test_what_is_ignored_is_told(told: Told) -> None:
    options = {"num_ctx": 4096, "num_gpu": 1, "mirostat": 0, "colour": 3}
    for stream in (False, True):
        reply = told.post("/api/chat", chat(stream=stream, options=options, keep_alive="5m"))
        assert reply.headers["x-pyrite-ignored"].split(", ") == [
            "options.num_ctx", "options.num_gpu", "options.colour", "keep_alive",
        ]  # fmt: skip


def test_options_reach_the_ask(told: Told) -> None:
    whole(told, options={
        "num_predict": 9, "temperature": 0, "top_k": 3, "top_p": 1, "min_p": 0.1, "typical_p": 0.9,
        "repeat_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.4, "seed": 7,
        "stop": "END",
    })  # fmt: skip
    params = told.ask.params
    assert (params.max_tokens, params.temperature, params.top_k, params.top_p) == (9, 0, 3, 1)
    assert (params.min_p, params.typical_p, params.repetition_penalty) == (0.1, 0.9, 1.2)
    assert (params.presence_penalty, params.frequency_penalty) == (0.3, 0.4)
    assert (params.seed, params.stop) == (7, ("END",))
    whole(told, options={"num_predict": -2})
    assert told.ask.params.max_tokens is None
    whole(told, options={"stop": ["a", "b"], "num_predict": -1})
    assert (told.ask.params.stop, told.ask.params.max_tokens) == (("a", "b"), None)


def test_defaults_are_ollamas(told: Told) -> None:
    whole(told)
    params = told.ask.params
    assert (params.temperature, params.top_k, params.top_p) == (0.8, 40, 0.9)


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("format", "grammar"),
    [
        (None, None),
        ("", None),
        ("json", Grammar.json_object()),
        ({"type": "object"}, Grammar.json_schema({"type": "object"})),
    ],
)
def test_a_format_constrains_the_answer(told: Told, path: str, format: Any, grammar: Any) -> None:
    whole(told, path, format=format)
    assert told.ask.params.grammar == grammar


@pytest.mark.parametrize(
    ("think", "options"),
    [
        (None, {}),
        (False, {"enable_thinking": False, "thinking": False}),
        (True, {"enable_thinking": True, "thinking": True}),
        ("high", {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    ],
)
def test_thinking_goes_to_the_template(told: Told, think: Any, options: Any) -> None:
    for path in ASKED:
        whole(told, path, think=think)
        assert told.ask.template_options == options


def test_a_generation_goes_through_the_template_unless_it_is_raw(told: Told) -> None:
    whole(told, "/api/generate", system="Be brief.")
    ask = told.service.asks[-1]
    assert isinstance(ask, ChatAsk)
    assert ask.messages == [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    ]  # fmt: skip
    whole(told, "/api/generate", raw=True)
    ask = told.service.asks[-1]
    assert isinstance(ask, TextAsk)
    assert (ask.prompt, ask.suffix) == ("Hi", None)
    whole(told, "/api/generate", suffix="}")
    ask = told.service.asks[-1]
    assert isinstance(ask, TextAsk)
    assert ask.suffix == "}"
    told.service.prompts.template = None
    whole(told, "/api/generate")
    assert isinstance(told.service.asks[-1], TextAsk)


def test_calls_get_ids_and_results_find_them(told: Told) -> None:
    calls = [
        {"function": {"name": "weather", "arguments": {"city": "東京"}}},
        {"function": {"name": "clock", "arguments": "{}"}},
        {"id": "mine", "function": {"name": "clock"}},
    ]
    whole(told, messages=[
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "thinking": "Hm", "tool_calls": calls},
        {"role": "tool", "tool_name": "clock", "content": "noon"},
        {"role": "tool", "content": "rain"},
        {"role": "tool", "tool_call_id": "mine", "content": "one"},
        {"role": "tool", "tool_name": "other", "content": "?"},
    ])  # fmt: skip
    _, assistant, *results = told.ask.messages
    assert assistant["content"] == ""
    assert assistant["reasoning_content"] == "Hm"
    assert [(call["id"], call["function"]["arguments"]) for call in assistant["tool_calls"]] == [
        ("call00001", '{"city":"東京"}'), ("call00002", "{}"), ("mine", "{}"),
    ]  # fmt: skip
    assert results == [
        {"role": "tool", "content": "noon", "tool_call_id": "call00002", "name": "clock"},
        {"role": "tool", "content": "rain", "tool_call_id": "call00001", "name": "weather"},
        {"role": "tool", "content": "one", "tool_call_id": "mine", "name": "clock"},
        {"role": "tool", "content": "?", "name": "other"},
    ]


def test_a_last_message_of_the_assistant_is_continued(told: Told) -> None:
    whole(told)
    assert not told.ask.continue_final_message
    whole(told, messages=[{"role": "assistant", "content": "The"}])
    assert told.ask.continue_final_message


# Vectors


def test_vectors(told: Told) -> None:
    reply = told.post("/api/embed", {"model": "told", "input": ["a", "bcd"], "dimensions": 2})
    assert reply.json() == {
        "model": "told", "embeddings": [[1, 1, 2], [3, 1, 2]], "prompt_eval_count": 4,
    }  # fmt: skip
    reply = told.post("/api/embed", {"model": "told", "input": "abc"})
    assert reply.json()["embeddings"] == [[3, 1, 0]]
    reply = told.post("/api/embeddings", {"model": "told", "prompt": "abc"})
    assert reply.json() == {"embedding": [3, 0, 0]}


# Models


@pytest.fixture
def filed(told: Told, tmp_path: Path) -> Told:
    """Over a file that is there."""
    path = build_gguf.write(tmp_path / "told.gguf")
    told.service.link = SimpleNamespace(model=path, ready=SimpleNamespace(context_length=512))
    return told


def test_tags_are_the_names_that_answer(filed: Told) -> None:
    models = filed.send("GET", "/api/tags").json()["models"]
    assert [one["name"] for one in models] == ["told", "alias"]
    entry = models[0]
    assert entry["model"] == "told"
    assert entry["size"] == filed.service.link.model.stat().st_size
    assert len(entry["digest"]) == 64
    assert entry["details"] == {
        "parent_model": "",
        "format": "gguf",
        "family": "llama",
        "families": ["llama"],
        "parameter_size": "0.00M",
        "quantization_level": "Q8_0",
    }


def test_what_runs_is_the_served_model(filed: Told) -> None:
    (entry,) = filed.send("GET", "/api/ps").json()["models"]
    assert (entry["name"], entry["context_length"]) == ("told", 512)
    filed.service.link.ready = None
    assert filed.send("GET", "/api/ps").json() == {"models": []}


def test_show_tells_what_the_file_says(filed: Told) -> None:
    for field in ("model", "name"):
        shown = filed.post("/api/show", {field: "told:latest"}).json()
        assert shown["model_info"]["general.architecture"] == "llama"
        assert shown["model_info"]["general.parameter_count"] == 2 * 8 + 3 * 32
        assert shown["capabilities"] == ["completion", "embedding"]
        assert shown["details"]["family"] == "llama"


def test_a_file_that_is_gone_is_an_error(told: Told) -> None:
    told.service.link.model = Path("/nowhere/told.gguf")
    for path in ("/api/tags", "/api/show"):
        reply = (
            told.send("GET", path) if path == "/api/tags" else told.post(path, {"model": "told"})
        )
        assert reply.status_code == 404
        assert list(reply.json()) == ["error"]


def test_version(told: Told) -> None:
    assert told.send("GET", "/api/version").json() == {
        "version": "0.12.0",
        "pyrite": __version__,
    }


def test_a_pull_tells_its_progress(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name: str, progress: Any) -> None:
        assert name == "small"
        progress(3, 10)
        progress(10, 10)

    monkeypatch.setattr(hub, "pull", pull)
    reply = told.post("/api/pull", {"model": "small:latest"})
    assert reply.headers["content-type"] == "application/x-ndjson"
    first, *middle, last = [json.loads(line) for line in reply.text.splitlines()]
    assert first == {"status": "pulling manifest"}
    assert middle[-1] == {
        "status": "pulling small", "digest": "small", "total": 10, "completed": 10,
    }  # fmt: skip
    assert last == {"status": "success"}
    reply = told.post("/api/pull", {"name": "small", "stream": False})
    assert reply.json() == {"status": "success"}


def test_a_pull_that_fails_says_so(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def pull(name: str, progress: Any) -> None:
        raise FetchError("no network")

    monkeypatch.setattr(hub, "pull", pull)
    reply = told.post("/api/pull", {"model": "small"})
    assert json.loads(reply.text.splitlines()[-1]) == {"error": "no network"}
    assert told.post("/api/pull", {"model": "small", "stream": False}).status_code == 502


def test_models_are_removed_but_for_the_served_one(
    told: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    removed: list[str] = []
    real = hub.remove
    monkeypatch.setattr(hub, "remove", lambda name: removed.append(name))
    assert told.send("DELETE", "/api/delete", json={"model": "small:latest"}).status_code == 200
    assert removed == ["small"]
    for name in ("told", "told:latest", "alias"):
        reply = told.send("DELETE", "/api/delete", json={"model": name})
        assert reply.status_code == 400
    monkeypatch.setattr(hub, "remove", real)
    reply = told.send("DELETE", "/api/delete", json={"model": "small"})
    assert reply.status_code == 404


def test_every_field_is_documented() -> None:
    tables = [types.CHAT, types.GENERATE, types.EMBED, types.EMBEDDINGS, types.SHOW, types.PULL]
    for table in (*tables, types.DELETE):
        rows = table.rows()
        assert all(row.words for row in rows if row.fate != "used")
        assert len({row.name for row in rows}) == len(rows)
