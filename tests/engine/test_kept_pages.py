"""The prefix cache survives a restart: what is read from disk changes no answer, and nothing that
happens to the disk does either."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scripted import (
    ReadingRunner,
    Result,
    alone,
    drive,
    hashed,
    make_engine,
    request,
    take_step,
)

from pyrite import keeper as module
from pyrite.engine import Engine
from pyrite.keeper import Keeper, WriteBudget
from pyrite.kv.store import PageStore
from pyrite.request import Request

ALPHABET = "abcdefghijklmnopqrstuvwxyz "
LIMIT = 1 << 20


def text(length: int, seed: int = 1) -> str:
    return "".join(random.Random(seed).choices(ALPHABET, k=length))


def start(folder: Path, *, limit: int = LIMIT, fingerprint: str = "", **sizes: int) -> Engine:
    """An engine as after a restart: nothing in memory."""
    runner = ReadingRunner(**{"num_pages": 64, "max_tokens": 64, **sizes})
    keeper = Keeper(runner, PageStore(folder, limit))
    return make_engine(runner, keeper=keeper, fingerprint=fingerprint)


def run(on: Engine, requests: Iterable[Request]) -> dict[str, Result]:
    """Until idle, and all is written."""
    results = drive(on, requests)
    on.close()
    return results


def ask(folder: Path, one: Request, **options) -> Result:
    return run(start(folder, **options), [one])[one.request_id]


def cached(result: Result) -> int:
    assert result.last.usage is not None
    return result.last.usage.cached_tokens


def num_files(folder: Path) -> int:
    return len(list(folder.iterdir())) if folder.exists() else 0


@pytest.mark.parametrize("length", [33, 63, 64, 65, 96, 97, 200])
@pytest.mark.parametrize("max_tokens", [1, 9, 64, 1000])
def test_a_prompt_is_found_after_a_restart(tmp_path: Path, length: int, max_tokens: int):
    one = request("a", text(length), max_tokens=5)
    first = ask(tmp_path, one, max_tokens=max_tokens)
    second = ask(tmp_path, one, max_tokens=max_tokens)
    kept = length // 32 if length >= 64 else 0
    assert num_files(tmp_path) == kept
    assert cached(first) == 0
    assert cached(second) == min(kept, (length - 1) // 32) * 32
    assert first.token_ids == second.token_ids == alone(one).token_ids


def test_only_what_is_missing_in_memory_is_read(tmp_path: Path):
    one, other = request("a", text(200)), request("b", text(96) + text(100, seed=2))
    run(start(tmp_path), [replace(one, request_id="0")])
    on = start(tmp_path)
    assert cached(drive(on, [other])["b"]) == 96
    assert on._keeper.num_restored == 3
    assert cached(drive(on, [one])["a"]) == 192
    assert on._keeper.num_restored == 6
    on.close()


def test_a_whole_page_on_disk_goes_before_a_part_of_one_in_memory(tmp_path: Path):
    prompt = text(200)
    run(start(tmp_path), [request("0", prompt)])
    on = start(tmp_path)
    run(on, [request("b", prompt[:50], max_tokens=1)])
    assert cached(drive(on, [request("a", prompt)])["a"]) == 192


def test_answers_are_not_kept_until_they_are_part_of_a_prompt(tmp_path: Path):
    one = request("a", text(70), max_tokens=100)
    on = start(tmp_path)
    answer = drive(on, [one])["a"]
    assert num_written(on) == 2
    following = request("b", [*one.prompt_ids, *answer.token_ids[:90], 65, 66])
    drive(on, [following])
    assert num_written(on) == 5
    assert cached(ask(tmp_path, replace(following, request_id="c"))) == 160


def num_written(on: Engine) -> int:
    """After the writer is done; the keeper can be used on."""
    keeper = on._keeper
    assert keeper is not None
    for _ in range(60_000):
        keeper.step()
        if not keeper._offered and keeper.num_written == sum(map(bool, keeper._seen.values())):
            break
        module.time.sleep(0.001)
    return keeper.num_written


@pytest.mark.parametrize("change", ["namespace", "fingerprint"])
def test_another_namespace_or_model_finds_nothing(tmp_path: Path, change: str):
    one = request("a", text(200), max_tokens=5)
    other = replace(one, cache_namespace="tenant") if change == "namespace" else one
    ask(tmp_path, one, fingerprint="model")
    fingerprint = "other" if change == "fingerprint" else "model"
    assert cached(ask(tmp_path, other, fingerprint=fingerprint)) == 0
    assert cached(ask(tmp_path, other, fingerprint=fingerprint)) == 192
    assert cached(ask(tmp_path, one, fingerprint="model")) == 192
    assert num_files(tmp_path) == 12


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap", "gone"])
@pytest.mark.parametrize("number", [0, 3])
def test_a_damaged_page_is_computed(tmp_path: Path, damage: str, number: int):
    one = request("a", text(200), max_tokens=5)
    ask(tmp_path, one)
    files = sorted(tmp_path.iterdir(), key=lambda path: -path.stat().st_mtime_ns)  # by depth
    victim = files[number]
    data = bytearray(victim.read_bytes())
    data[-20] ^= 4
    if damage == "flip":
        victim.write_bytes(data)
    elif damage == "swap":
        victim.write_bytes(files[1].read_bytes())
    elif damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes(data[:100] if damage == "cut" else b"")
    again = ask(tmp_path, one)
    assert again.token_ids == alone(one).token_ids
    assert cached(again) == 128  # a step computes two pages, the damaged one and the next
    assert cached(ask(tmp_path, one)) == 192  # it was written anew


def test_scored_prompts_are_computed(tmp_path: Path):
    one = request("a", text(100), max_tokens=2)
    ask(tmp_path, one)
    scored = request("a", text(100), max_tokens=2, prompt_logprobs=1)
    again = ask(tmp_path, scored)
    assert cached(again) == 0
    assert len(again.deltas[0].prompt_logprobs) == 100


def test_reading_is_spread_over_steps_and_streams_go_on(tmp_path: Path, monkeypatch):
    long = request("long", text(400), max_tokens=3)
    ask(tmp_path, long)
    monkeypatch.setattr(module, "STEP_BYTES", 3 * 128)  # three pages of 128 bytes
    on = start(tmp_path)
    results: dict[str, Result] = {}
    on.add(request("stream", "abc", max_tokens=20))
    take_step(on, results)
    on.add(long)
    restored = []
    while "long" not in results:
        before = on._keeper.num_restored
        take_step(on, results)
        restored.append(on._keeper.num_restored - before)
    assert restored[:4] == [3, 3, 3, 3]
    assert len(results["stream"].deltas) == 1 + len(restored)
    results |= drive(on)
    assert results["long"].token_ids == alone(long).token_ids[-len(results["long"].token_ids) :]
    on.close()


def test_a_step_may_do_nothing_but_read(tmp_path: Path, monkeypatch):
    one = request("a", text(300), max_tokens=3)
    ask(tmp_path, one)
    monkeypatch.setattr(module, "STEP_BYTES", 1)
    on = start(tmp_path)
    result = drive(on, [one])["a"]
    assert cached(result) == 288
    assert on.stats().computed_tokens == 12 + 2
    assert result.token_ids == alone(one).token_ids
    on.close()


def test_requests_with_one_beginning_read_it_once(tmp_path: Path):
    prompts = {str(i): text(160) + text(40, seed=i) for i in range(2, 8)}
    ask(tmp_path, request("a", text(170)))
    on = start(tmp_path)
    requests = [request(name, prompt, max_tokens=4) for name, prompt in prompts.items()]
    results = run(on, requests)
    assert on._keeper.num_restored == 5
    for one in requests:
        assert cached(results[one.request_id]) == 160
        assert results[one.request_id].token_ids == alone(one).token_ids


@pytest.mark.parametrize("seed", range(6))
def test_a_crowd_in_few_pages_over_restarts(tmp_path: Path, seed: int):
    """Preemption, eviction, cancelling and reading at once: each answer is its own."""
    rng = random.Random(seed)
    beginnings = [text(rng.randrange(60, 150), seed=i) for i in range(3)]
    for life in range(3):
        requests = [
            request(
                f"{life}.{i}",
                rng.choice(beginnings) + text(rng.randrange(1, 60), seed=100 * seed + i),
                max_tokens=rng.randrange(1, 40),
            )
            for i in range(10)
        ]
        on = start(tmp_path, num_pages=rng.choice([8, 12, 20]), max_tokens=rng.choice([16, 64]))
        for one in requests:
            on.add(one)
        results: dict[str, Result] = {}
        for _ in range(rng.randrange(3, 12)):
            take_step(on, results)
        gone = rng.choice(requests).request_id
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
    assert num_files(tmp_path) > 5


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_disk_that_refuses_costs_one_warning(tmp_path, monkeypatch, caplog, code: int, at: int):
    put, calls = PageStore.put, []

    def fail(store, name, page):
        calls.append(name)
        if len(calls) > at:
            raise OSError(code, os.strerror(code))
        put(store, name, page)

    monkeypatch.setattr(PageStore, "put", fail)
    on = start(tmp_path)
    requests = [request(str(i), text(200, seed=i), max_tokens=3) for i in range(4)]
    with caplog.at_level(logging.WARNING):
        results = run(on, requests)
    assert len(caplog.records) == 1
    assert os.strerror(code) in caplog.text
    assert len(calls) == at + 1
    assert num_files(tmp_path) == at
    for one in requests:
        assert results[one.request_id].token_ids == alone(one).token_ids


def test_no_memory_for_a_copy_costs_one_warning(tmp_path: Path, monkeypatch, caplog):
    on = start(tmp_path)

    def fail(page, out):
        raise MemoryError

    on.runner.read_page = fail
    one = request("a", text(200), max_tokens=3)
    with caplog.at_level(logging.WARNING):
        results = run(on, [one, replace(one, request_id="b")])
    assert len(caplog.records) == 1
    assert results["a"].token_ids == results["b"].token_ids == alone(one).token_ids


def test_a_prompt_whose_numbers_are_broken_is_not_kept(tmp_path: Path):
    """It would be found again at every start."""

    def broken(history):
        return hashed(history) * np.float32(np.nan)

    runner = ReadingRunner(broken, num_pages=64)
    on = make_engine(runner, keeper=Keeper(runner, PageStore(tmp_path, LIMIT)))
    results = run(on, [request("a", text(200))])
    assert results["a"].last.finish_reason == "error"
    assert num_files(tmp_path) == 0


def test_what_is_read_and_written_is_counted(tmp_path: Path):
    one = request("a", text(200))
    on = start(tmp_path)
    run(on, [one])
    assert (on.stats().stored_pages, on.stats().restored_tokens) == (6, 0)
    on = start(tmp_path)
    run(on, [one])
    stats = on.stats()
    assert (stats.stored_pages, stats.restored_tokens, stats.prefix_hits) == (0, 192, 192)


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path, caplog):
    (tmp_path / "file").write_text("")
    one = request("a", text(200), max_tokens=3)
    with caplog.at_level(logging.WARNING):
        result = ask(tmp_path / "file" / "kv", one)
    assert len(caplog.records) == 1
    assert result.token_ids == alone(one).token_ids


def test_what_is_written_first_stops_at_half_of_the_budget(tmp_path: Path):
    """A prompt that comes again is worth more than one that never did."""
    size = 80 + 4 * 32 + 128
    on = start(tmp_path, limit=4 * 20 * size)
    prompts = [text(100, seed=i) for i in range(20)]
    for i, prompt in enumerate(prompts):
        drive(on, [request(str(i), prompt, max_tokens=1)])
    written = num_written(on)
    assert written == 4 * 20 * size // 4 // 2 // 128  # bytes of pages alone are counted
    for i in (12, 15):
        drive(on, [request(f"again {i}", prompts[i], max_tokens=1)])
    assert num_written(on) == written + 6
    on.close()


def test_budget():
    budget = WriteBudget(burst=100, per_second=0)
    assert budget.take(50, is_again=False)
    assert not budget.take(1, is_again=False)
    assert budget.take(50, is_again=True)
    assert not budget.take(1, is_again=True)
    filled = WriteBudget(burst=100, per_second=1e12)
    assert all(filled.take(100, is_again=True) for _ in range(3))


def test_a_tenant_that_writes_much_leaves_some_of_the_budget_to_others():
    budget = WriteBudget(burst=100, per_second=0)
    assert budget.take(10, tenant="victim", is_again=False)
    assert sum(budget.take(1, tenant="flood", is_again=False) for _ in range(90)) == 15
    assert sum(budget.take(1, tenant="flood", is_again=True) for _ in range(90)) == 50
    assert sum(budget.take(1, tenant="victim", is_again=True) for _ in range(90)) == 25


def test_use_from_memory_is_noted_on_disk(tmp_path: Path, monkeypatch):
    """Now and then; and a file that went meanwhile is written again."""
    prompt = text(100)
    on = start(tmp_path)

    def ask_again(name: str) -> None:
        drive(on, [request(name, prompt, max_tokens=1)])
        num_written(on)

    ask_again("0")
    first, second, third = sorted(tmp_path.iterdir())
    os.utime(first, (1, 1))
    ask_again("at once")
    assert first.stat().st_mtime == 1
    monkeypatch.setattr(module, "NOTED_SECONDS", 0.0)
    second.unlink()
    ask_again("later")
    on.close()
    assert first.stat().st_mtime > 1
    assert sorted(tmp_path.iterdir()) == [first, second, third]


def test_a_writer_that_is_behind_holds_nobody_up(tmp_path: Path, monkeypatch):
    """Copies are bounded: what does not fit waits with its page, if that stays."""
    monkeypatch.setattr(module, "QUEUE_BYTES", 4 * 128)
    release = module.threading.Event()
    put = PageStore.put

    def slow(store, name, page):
        release.wait(60)
        put(store, name, page)

    monkeypatch.setattr(PageStore, "put", slow)
    on = start(tmp_path)
    results = drive(on, [request("a", text(400), max_tokens=4)])
    assert len(results["a"].token_ids) == 4
    assert on._keeper._copies.qsize() <= 4
    release.set()
    on.close()
    assert num_files(tmp_path) == 12


def test_a_writer_that_hangs_does_not_hold_up_the_end(tmp_path: Path, monkeypatch):
    release = module.threading.Event()
    monkeypatch.setattr(PageStore, "put", lambda *given: release.wait())
    on = start(tmp_path)
    drive(on, [request("a", text(400), max_tokens=4)])
    on._keeper.close(seconds=0.05)  # else it would wait for ever
    release.set()


def test_without_a_prefix_cache_nothing_is_kept(tmp_path: Path):
    runner = ReadingRunner(num_pages=64)
    on = make_engine(runner, keeper=Keeper(runner, PageStore(tmp_path, LIMIT)), prefix_cache=False)
    one = request("a", text(200), max_tokens=3)
    assert run(on, [one])["a"].token_ids == alone(one).token_ids
    assert num_files(tmp_path) == 0


PROGRAM = """
import json, sys, pyrite
path, prompt, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with pyrite.load(path, threads=2, context=256, **options) as model:
    done = model.generate(prompt, max_tokens=16, temperature=0, ignore_eos=True)
    print(json.dumps([done.token_ids, done.usage.cached_tokens, done.usage.prompt_tokens]))
"""


def in_a_process(home: Path, path: Path, prompt: str, **options: object):
    environment = {**os.environ, "PYRITE_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), prompt, json.dumps(options)],
        capture_output=True,
        env=environment,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


def check_two_processes(home: Path, path: Path, prompt: str, **options: object) -> None:
    first, second = (
        in_a_process(home, path, prompt, kv_store_bytes=LIMIT << 7, **options) for _ in range(2)
    )
    assert first[1] == 0
    assert second[1] == (first[2] - 1) // 32 * 32 > 0
    assert second[0] == first[0]


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_the_same_beginning_in_a_second_process(golden: Path, tmp_path: Path, backend: str):
    """In a third one that computes otherwise, it is not the same."""
    path, prompt = golden / "gguf_models" / "qwen2_q8_0.gguf", "You are a helpful assistant. " * 6
    check_two_processes(tmp_path, path, prompt, backend=backend)
    assert (tmp_path / "kv").stat().st_mode & 0o777 == 0o700
    other = {"kv_type": "q8"} if backend == "cpu" else {"precision": "fast"}
    check_two_processes(tmp_path, path, prompt, **other)


@pytest.mark.model
def test_the_same_beginning_in_a_second_process_of_smollm2(smollm2_path: Path, tmp_path: Path):
    check_two_processes(tmp_path, smollm2_path, "You are a helpful assistant. " * 30)
