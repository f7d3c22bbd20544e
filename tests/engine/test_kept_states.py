"""States survive a restart beside their pages: what is read from disk changes no answer."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripted import Result, StateRunner, alone, drive, make_engine, request, take_step
from test_kept_pages import cached, num_files, text

from pyrite import keeper as module
from pyrite.engine import Engine
from pyrite.keeper import Keeper
from pyrite.kv.store import PageStore
from pyrite.request import Request

LIMIT = 1 << 20


class StatesAlone(StateRunner):
    """Of a model without keys and values: its pages have no bytes to keep."""

    page_bytes = 0  # type: ignore[assignment]

    def read_page(self, page: int, out: object) -> None:
        raise AssertionError("it has no pages")

    write_page = read_page  # type: ignore[assignment]


def start(folder: Path, **sizes: int) -> Engine:
    """An engine as after a restart: nothing in memory."""
    runner = StateRunner(**{"num_pages": 64, "num_slots": 16, "max_tokens": 64, **sizes})
    return make_engine(runner, keeper=Keeper(runner, PageStore(folder, LIMIT)))


def run(on: Engine, requests: Iterable[Request]) -> dict[str, Result]:
    results = drive(on, requests)
    on.close()
    return results


def ask(folder: Path, one: Request, **sizes: int) -> Result:
    return run(start(folder, **sizes), [one])[one.request_id]


@pytest.mark.parametrize("length", [33, 64, 65, 96, 97, 200])
@pytest.mark.parametrize("max_tokens", [1, 9, 64, 1000])
def test_a_prompt_is_found_after_a_restart(tmp_path: Path, length: int, max_tokens: int) -> None:
    one = request("a", text(length), max_tokens=5)
    first = ask(tmp_path, one, max_tokens=max_tokens)
    second = ask(tmp_path, one, max_tokens=max_tokens)
    last = (length - 1) // 32
    kept = last if last >= 2 else 0
    assert num_files(tmp_path) == kept + (kept > 0), "its pages up to the state, and the state"
    assert (cached(first), cached(second)) == (0, kept * 32)
    assert first.token_ids == second.token_ids == alone(one).token_ids


def test_a_conversation_over_restarts(tmp_path: Path) -> None:
    prompt, known = list(text(80).encode()), 0
    for turn in range(4):
        one = request(f"turn {turn}", prompt, max_tokens=50)
        result = ask(tmp_path, one)
        assert result.token_ids == alone(one).token_ids
        assert cached(result) == known, "answers are kept once they are part of a prompt"
        known = (len(prompt) - 1) // 32 * 32
        prompt += result.token_ids + list(text(20, turn).encode())


def test_a_conversation_that_grows_by_little(tmp_path: Path) -> None:
    """It goes on from states inside of pages, and the end of a page is kept now and then."""
    on = long_engine(tmp_path)
    prompt = list(text(80).encode())
    for turn in range(16):
        answer = drive(on, [request(str(turn), prompt, max_tokens=20)])[str(turn)]
        assert turn == 0 or cached(answer) > len(prompt) - 20
        prompt += answer.token_ids + list(text(10, turn).encode())
    on.close()
    again = run(long_engine(tmp_path), [request("a", prompt, max_tokens=2)])
    assert cached(again["a"]) > len(prompt) - 320


def long_engine(folder: Path) -> Engine:
    runner = StateRunner(num_pages=64, num_slots=16)
    return make_engine(runner, keeper=Keeper(runner, PageStore(folder, LIMIT)), context=2000)


def test_what_was_read_serves_the_next_one_from_memory(tmp_path: Path) -> None:
    one = request("a", text(200), max_tokens=3)
    ask(tmp_path, one)
    on = start(tmp_path)
    assert [cached(drive(on, [one])["a"]) for _ in range(2)] == [192, 192]
    assert on.stats().restored_tokens == 192
    on.close()


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
@pytest.mark.parametrize("number", range(7))
def test_what_is_damaged_is_computed(tmp_path: Path, damage: str, number: int) -> None:
    """Whether a page or the state: nothing before it is of use then."""
    one = request("a", text(200), max_tokens=5)
    ask(tmp_path, one)
    victim = sorted(tmp_path.iterdir())[number]
    data = bytearray(victim.read_bytes())
    data[-5] ^= 4
    if damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes(data if damage == "flip" else data[:100])
    again = ask(tmp_path, one)
    assert again.token_ids == alone(one).token_ids
    assert cached(again) == 0
    assert cached(ask(tmp_path, one)) == 192, "it was written anew"


@pytest.mark.parametrize("step_bytes", [1, 300])
def test_reading_is_spread_over_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_bytes: int
) -> None:
    one = request("a", text(300), max_tokens=3)
    ask(tmp_path, one)
    monkeypatch.setattr(module, "STEP_BYTES", step_bytes)
    on = start(tmp_path)
    result = drive(on, [one])["a"]
    assert cached(result) == 288
    assert on.stats().computed_tokens == 12 + 2
    assert result.token_ids == alone(one).token_ids
    on.close()


@pytest.mark.parametrize("steps", range(1, 9))
def test_cancelled_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    one = request("a", text(200), max_tokens=3)
    ask(tmp_path, one)
    monkeypatch.setattr(module, "STEP_BYTES", 1)
    on = start(tmp_path)
    on.add(one)
    for _ in range(steps):
        take_step(on, {})
    on.cancel("a")
    on.check()
    assert drive(on, [one])["a"].token_ids == alone(one).token_ids
    on.close()


def test_requests_with_one_beginning_read_it_once(tmp_path: Path) -> None:
    prompts = {str(i): text(160) + text(40, seed=i) for i in range(2, 8)}
    ask(tmp_path, request("a", text(161)))
    on = start(tmp_path)
    requests = [request(name, prompt, max_tokens=4) for name, prompt in prompts.items()]
    results = run(on, requests)
    assert on.stats().restored_tokens == 160
    for one in requests:
        assert cached(results[one.request_id]) == 160
        assert results[one.request_id].token_ids == alone(one).token_ids


def test_states_alone(tmp_path: Path) -> None:
    """Of a model without keys and values; what the scripted runner compares lies in pages."""
    one = request("a", text(200), max_tokens=5)
    for known in (0, 192):
        runner = StatesAlone(num_pages=64)
        on = make_engine(runner, keeper=Keeper(runner, PageStore(tmp_path, LIMIT)))
        runner.pages[:6] = np.array(one.prompt_ids[:192]).reshape(6, 32)
        results = run(on, [one])
        assert results["a"].token_ids == alone(one).token_ids
        assert cached(results["a"]) == known
        assert num_files(tmp_path) == 1


@pytest.mark.parametrize("seed", range(6))
def test_a_crowd_in_few_pages_over_restarts(tmp_path: Path, seed: int) -> None:
    """Preemption, eviction, cancelling and reading at once: each answer is its own."""
    dice = random.Random(seed)
    beginnings = [text(dice.randrange(60, 150), seed=i) for i in range(3)]
    for life in range(3):
        requests = [
            request(
                f"{life}.{i}",
                dice.choice(beginnings) + text(dice.randrange(1, 60), seed=100 * seed + i),
                max_tokens=dice.randrange(1, 40),
            )
            for i in range(10)
        ]
        on = start(
            tmp_path,
            num_pages=dice.choice([8, 12, 20]),
            num_slots=dice.choice([2, 5, 12]),
            max_tokens=dice.choice([16, 64]),
        )
        for one in requests:
            on.add(one)
        results: dict[str, Result] = {}
        for _ in range(dice.randrange(3, 12)):
            take_step(on, results)
        gone = dice.choice(requests).request_id
        on.cancel(gone)
        for name, more in drive(on).items():
            results.setdefault(name, Result()).deltas += more.deltas
        on.close()
        for one in requests:
            expected = alone(one).token_ids
            found = results.get(one.request_id, Result()).token_ids
            if one.request_id == gone:
                expected = expected[: len(found)]
            assert found == expected, one.request_id
    assert num_files(tmp_path) > 3


def test_another_namespace_finds_nothing(tmp_path: Path) -> None:
    one = request("a", text(200), max_tokens=5)
    ask(tmp_path, one)
    assert cached(ask(tmp_path, replace(one, cache_namespace="tenant"))) == 0
    assert cached(ask(tmp_path, one)) == 192
