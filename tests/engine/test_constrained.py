"""Grammars in the engine: what comes out follows them, whatever the model would rather say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import jsonschema
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.scripted import (
    EOS,
    MARKER,
    VOCABULARY,
    History,
    Logits,
    ReadingRunner,
    Result,
    alone,
    assert_idle,
    drive,
    hashed,
    make_engine,
    request,
    take_step,
)

from pyrite.engine import COMPILE_WAIT_SECONDS, Engine
from pyrite.errors import ParameterError
from pyrite.request import Request
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.params import SamplingParams
from pyrite.sampling.speculate import Repetition
from pyrite.speculation import Speculation
from work import counted

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "city": {"type": "string"}},
    "required": ["name", "city"],
    "additionalProperties": False,
}


def preferring(*likes: str | int) -> Logits:
    """Likes these tokens best, the first most; the others by chance of the history."""
    order = [ord(one) if isinstance(one, str) else one for one in likes]

    def logits(history: History) -> NDArray[np.float32]:
        row = hashed(history)
        row[order] = 1000 - 10 * np.arange(len(order))
        return row

    return logits


def constrained(name: str, grammar: Grammar, **params: object) -> Request:
    return request(name, f"{name}: ", grammar=grammar, **params)


def said(grammar: Grammar, logits: Logits = hashed, **params: object) -> Result:
    return alone(constrained("a", grammar, **params), logits)


ADVERSARIES: dict[str, Callable[[], Logits]] = {
    "chance": lambda: hashed,
    "blanks": lambda: preferring(" ", "\n", "\t", "\r"),
    "end": lambda: preferring(EOS, '"', "}"),
    "marker": lambda: preferring(MARKER, 0, 255, VOCABULARY - 1, '"', "}"),
    "opening": lambda: preferring("{", "[", ",", ":", '"'),
    "backslash": lambda: preferring("\\", "u", "d", "8", '"'),
}


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_every_adversary_gives_what_the_schema_holds_for(adversary: str) -> None:
    """A model that would rather give blanks for ever ends all the same."""
    for seed in (None, 1, 2):
        chance = {"temperature": 0} if seed is None else {"temperature": 1.0, "seed": seed}
        schema = {**PERSON, "properties": {key: {"enum": ["x y", "z"]} for key in ("name", "city")}}
        result = said(Grammar.json_schema(schema), ADVERSARIES[adversary](), **chance)
        assert result.last.finish_reason == "stop", result.text
        jsonschema.validate(json.loads(result.text), schema)


def test_blanks_are_few() -> None:
    grammar = Grammar.json_schema({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3})
    result = said(grammar, preferring(" ", "\n", "1", ","))
    assert result.text == "[1, 1, 1]"


def test_an_end_that_the_model_prefers_comes_where_the_grammar_allows_it() -> None:
    assert said(Grammar.regex("[0-9]{3,9}"), preferring(EOS, "7")).text == "777"
    assert said(Grammar.regex("[0-9]{3,9}"), preferring("7", EOS)).text == "777777777"


def test_a_complete_grammar_ends_the_request_without_a_token_of_its_own() -> None:
    result = said(Grammar.choice(["yes", "no"]), preferring("n"))
    assert (result.text, result.last.finish_reason) == ("no", "stop")
    assert result.token_ids == list(b"no")
    assert result.last.stopped_by is None


def test_kinds() -> None:
    assert json.loads(said(Grammar.json_object(), preferring("}", '"')).text) == {}
    assert said(Grammar.lark('start: "a" b+\nb: /[0-9]/ "!"'), preferring("!", EOS, "4")).text == (
        "a4!"
    )
    assert said(Grammar.choice(["", "x"]), preferring(EOS)).text == ""
    texts = ['say "hi"', "back\\slash", "новый\nряд", "/slash/"]
    for text in texts:
        first = text.encode()[0]
        assert said(Grammar.choice(texts), preferring(first)).text == text


def test_a_length_that_is_too_short_says_so() -> None:
    result = said(Grammar.regex("a{50}"), max_tokens=20)
    assert (result.text, result.last.finish_reason) == ("a" * 20, "length")


def test_a_special_token_is_reached_by_name_and_never_by_text() -> None:
    """The text of a control token is spelled out in ordinary ones."""
    spelled = said(Grammar.lark('start: "<marker>" "."'), preferring(MARKER))
    assert spelled.token_ids == list(b"<marker>.")
    assert said(Grammar.regex("<marker>"), preferring(MARKER)).token_ids == list(b"<marker>")
    named = said(Grammar.lark("start: <marker> /[a-c]/"), preferring("a", "<"))
    assert named.token_ids == [MARKER, ord("a")]
    numbered = said(Grammar.lark(f"start: <[{MARKER}]> /[a-c]/"), preferring("b"))
    assert numbered.token_ids == [MARKER, ord("b")]


def test_a_stop_string_ends_before_the_grammar_does() -> None:
    result = said(Grammar.json_schema(PERSON), stop=["name"])
    assert (result.text, result.last.stopped_by) == ('{"', "name")


def test_bias_penalties_and_min_tokens_work_within_the_grammar() -> None:
    grammar = Grammar.regex("[ab]{1,40}")
    pushed = said(grammar, preferring("a"), logit_bias={ord("z"): 100.0, EOS: -100.0})
    assert set(pushed.text) <= {"a", "b"}
    held = said(grammar, preferring(EOS, "a"), min_tokens=5)
    assert held.text == "aaaaa"
    varied = said(grammar, preferring("a"), repetition_penalty=10.0, frequency_penalty=2.0)
    assert set(varied.text) <= {"a", "b"}


def test_an_ignored_end_and_a_grammar_are_refused() -> None:
    with pytest.raises(ParameterError, match="ignore_eos"):
        SamplingParams(grammar=Grammar.regex("a"), ignore_eos=True)


def test_logprobs_are_the_models_and_finite() -> None:
    """With a grammar that allows one token."""
    result = said(Grammar.regex("abc"), logprobs=20)
    for delta in result.deltas:
        (position,) = delta.logprobs
        assert position.token.token_id in b"abc"
        assert len(position.top) == 20
        assert all(-9999 <= entry.logprob <= 0 for entry in (position.token, *position.top))


# --- company ------------------------------------------------------------------------------------


def crowd() -> list[Request]:
    requests = []
    for index in range(6):
        chance = {"temperature": 0} if index % 2 else {"temperature": 1.0, "seed": index}
        schema = {"type": "array", "items": {"enum": ["a", index, None]}, "maxItems": 4}
        grammars = [Grammar.json_schema(schema), Grammar.regex("[a-f]{4,30}"), None]
        requests.append(
            request(
                f"r{index}", f"ask {index}", grammar=grammars[index % 3], **chance, max_tokens=40
            )
        )
    return requests


@pytest.mark.parametrize("pages", [4, 32])
def test_company_and_preemption_change_nothing(pages: int) -> None:
    together = drive(make_engine(ReadingRunner(num_pages=pages), context=64), crowd())
    for one in crowd():
        assert together[one.request_id].token_ids == alone(one, context=64).token_ids
        assert together[one.request_id].text == alone(one, context=64).text


def test_a_grammar_that_cannot_be_compiled_ends_its_request_alone() -> None:
    engine = make_engine(ReadingRunner())
    results = drive(
        engine,
        [
            constrained("bad", Grammar.regex("[")),
            constrained("good", Grammar.regex("abc")),
            request("plain", "hello", max_tokens=5),
        ],
    )
    error = results["bad"].last.error
    assert isinstance(error, ParameterError)
    assert error.name == "regex"
    assert "unclosed character class" in str(error)
    assert results["good"].text == "abc"
    assert len(results["plain"].token_ids) == 5


def test_a_grammar_that_leads_nowhere_ends_its_request_alone() -> None:
    engine = make_engine(ReadingRunner())
    grammar = Grammar.lark('start: "ab" X\nX: /a/ & /b/')
    results = drive(engine, [constrained("a", grammar), constrained("b", Grammar.regex("yes"))])
    assert isinstance(results["a"].last.error, ParameterError)
    assert results["b"].text == "yes"


def test_a_row_that_fails_while_masks_are_computed_is_run_again() -> None:
    runner = ReadingRunner()
    runner.fails = lambda number, batch: number == 2
    result = drive(make_engine(runner), [constrained("a", Grammar.regex("abcde"))])["a"]
    assert isinstance(result.last.error, Exception)  # the only slice: it fails, and nothing hangs
    again = drive(make_engine(ReadingRunner()), [constrained("a", Grammar.regex("abcde"))])["a"]
    assert again.text == "abcde"


@pytest.mark.parametrize("number", range(1, 8))
def test_a_mask_that_fails_fails_its_request_alone(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The n-th grammar step raises."""
    calls = 0
    mask = Constraint.mask

    def failing(self: Constraint, words: NDArray[np.uint32]) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise ParameterError("grammar", "", "scripted to fail")
        mask(self, words)

    monkeypatch.setattr(Constraint, "mask", failing)
    requests = [constrained(name, Grammar.regex("[a-z]{4}")) for name in "abc"]
    results = drive(make_engine(ReadingRunner()), requests)
    failed = [name for name in "abc" if results[name].last.error]
    assert len(failed) == 1
    for name in set("abc") - set(failed):
        assert len(results[name].text) == 4


# --- compiling beside the loop ------------------------------------------------------------------


class Gate:
    """Holds the compiler back until it is opened."""

    def __init__(self, engine: Engine) -> None:
        self.opened = threading.Event()
        engine._compiling.compiler._thread.submit(lambda: self.opened.wait())


def test_others_run_while_a_grammar_is_compiled() -> None:
    engine = make_engine(ReadingRunner())
    gate = Gate(engine)
    engine.add(constrained("slow", Grammar.regex("abc")))
    engine.add(request("plain", "hello", max_tokens=6))
    results: dict[str, Result] = {}
    while "plain" not in results or not results["plain"].last.finish_reason:
        take_step(engine, results)
    assert "slow" not in results
    assert engine.has_work
    assert engine.stats().waiting == 1
    gate.opened.set()
    results |= drive(engine)
    assert results["slow"].text == "abc"


def test_waiting_for_a_grammar_alone_does_not_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    def noted(futures: list[Any], seconds: float, until: str) -> object:
        waits.append(seconds)
        return wait(futures, seconds, until)

    monkeypatch.setattr("pyrite.grammars.wait", noted)
    engine = make_engine(ReadingRunner())
    gate = Gate(engine)
    engine.add(constrained("slow", Grammar.regex("abc")))
    with counted() as work:
        for _ in range(5):
            assert engine.step() == []
    assert waits == [COMPILE_WAIT_SECONDS] * 5
    assert COMPILE_WAIT_SECONDS >= 0.01
    assert work.lines < 5 * 100
    gate.opened.set()
    assert drive(engine)["slow"].text == "abc"


def test_a_request_is_cancelled_while_its_grammar_is_compiled() -> None:
    engine = make_engine(ReadingRunner())
    gate = Gate(engine)
    engine.add(constrained("slow", Grammar.regex("abc")))
    with pytest.raises(ParameterError, match="request_id"):
        engine.add(constrained("slow", Grammar.regex("abc")))
    last = engine.cancel("slow")
    assert last is not None
    assert last.finish_reason == "cancelled"
    assert engine.cancel("slow") is None
    gate.opened.set()
    assert_idle(engine)


def test_a_grammar_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(ReadingRunner())
    engine.prepare_grammars()
    assert drive(engine, [constrained("first", Grammar.regex("a"))])["first"].text == "a"
    gate = Gate(engine)
    with monkeypatch.context() as patch:
        patch.setattr("pyrite.grammars.MAX_COMPILE_SECONDS", 0.05)
        results = drive(engine, [constrained("slow", Grammar.regex("abc"))])
    assert isinstance(results["slow"].last.error, ParameterError)
    assert "seconds" in str(results["slow"].last.error)
    gate.opened.set()
    assert drive(engine, [constrained("next", Grammar.regex("abc"))])["next"].text == "abc"


AMBIGUOUS = Grammar.lark('start: a\na: a a | "x" | "y" | a a a\n')


def test_a_grammar_that_is_slow_to_follow_ends_its_request_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It grows slower with each token, whoever draws them; a neighbour has all its own."""
    monkeypatch.setattr("pyrite.sampling.constraint.GRAMMAR_SECONDS", 0.05)
    monkeypatch.setattr("pyrite.sampling.constraint.GRAMMAR_TOKEN_SECONDS", 0.0001)
    engine = make_engine(ReadingRunner(), speculation=Speculation(Repetition()))
    plain = request("plain", "plain: ", max_tokens=100)
    asked = constrained("slow", AMBIGUOUS, max_tokens=400)
    results = drive(engine, [asked, plain])
    error = results["slow"].last.error
    assert isinstance(error, ParameterError)
    assert error.name == "lark"
    assert "processor time" in str(error)
    assert results["plain"].token_ids == alone(plain).token_ids
    assert_idle(engine)
