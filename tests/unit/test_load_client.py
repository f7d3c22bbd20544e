"""The load client and a scripted server: what it counts, what it calls a fault, when it ends."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import pytest
from tests.scripted_site import (
    DONE,
    END,
    ROLE,
    STREAM_HEAD,
    Cut,
    Script,
    Step,
    chunk,
    chunked,
    counting,
    event,
    scripted_site,
    stream,
    torn,
    usage,
    whole,
)

from pyrite.cli import bench_serve
from pyrite.cli.load.answer import Answer
from pyrite.cli.load.drive import Pace, Run, drive
from pyrite.cli.load.events import EventReader
from pyrite.cli.load.http import parse_url
from pyrite.cli.load.prompts import Prompt, PromptMaker, Vocabulary
from pyrite.cli.load.summary import Summary, percentile, spread, summarize
from pyrite.cli.load.table import REPORTS
from pyrite.cli.load.target import Target
from pyrite.cli.main import Parser, main
from pyrite.errors import ParameterError, RequestError
from work import counted

T = TypeVar("T")
PLAIN = stream(ROLE, chunk("a"), chunk("b"), chunk("c"), END, usage(20, 3, cached=16), DONE)


def run(task: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=bench_serve.loop_factory()) as runner:
        return runner.run(task)


def ask(script: Script, requests: int = 1, *, limit: float = 60, **pace: Any) -> Run:
    async def asked() -> Run:
        async with scripted_site(script) as url:
            target = Target(parse_url(url), "scripted")
            data = [target.encode_stream(Prompt("", "hello"), 3) for _ in range(requests)]
            return await drive(target.address, data, Pace(**pace), limit_seconds=limit)

    return run(asked())


def one(*steps: Step) -> Answer:
    return ask(lambda _: steps).answers[0]


def measure(script: Script, *words: str) -> Summary:
    async def measured() -> Summary:
        async with scripted_site(script) as url:
            return await bench_serve.measure(options("--url", url, *words), lambda text: None)

    return run(measured())


def options(*words: str) -> argparse.Namespace:
    parser = Parser(allow_abbrev=False)
    bench_serve.add_arguments(parser)
    found = parser.parse_args(words)
    bench_serve.judge(found)
    return found


def test_a_plain_stream() -> None:
    answer = one(*PLAIN)
    assert answer.fault is None
    assert answer.status == 200
    assert len(answer.chunks) == answer.tokens == 3, "a role and an end are no tokens"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 20
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 16


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_cut_at_odd_places(size: int) -> None:
    raw = 'data: {"choices":[{"delta":{"content":"ü€😀"}}]}\r\n\r\n'.encode()
    steps = stream(b": a comment\n\n", ROLE, chunk("ü€😀"), raw + chunk("x"), usage(5, 3), DONE)
    answer = one(*torn(steps, size))
    assert (answer.fault, len(answer.chunks), answer.tokens) == (None, 3, 3)


def test_events_that_are_cut_anywhere() -> None:
    data = b'data: {"a":1}\n\ndata:two\r\ndata: lines\r\n\r\n: comment\n\nevent: x\ndata: last\n\n'
    expected = [b'{"a":1}', b"two\nlines", b"last"]
    for first in range(len(data)):
        for second in range(first, len(data), 5):
            reader = EventReader()
            parts = (data[:first], data[first:second], data[second:])
            assert [one for part in parts for one in reader.feed(part)] == expected


def test_an_endless_event_is_a_fault() -> None:
    reader = EventReader()
    with pytest.raises(ValueError, match="an event of more than"):
        reader.feed(b"data: " + bytes(17 << 20))


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        (whole({"error": {"message": "too many"}}, 429), "429"),
        (whole({"error": {"message": "broken"}}, 500), "500"),
        (stream(ROLE, chunk("a"), event({"error": {"message": "lost"}}), DONE), "error"),
        (stream(ROLE, chunk("a"), event({"error": {"message": "lost"}})), "error"),
        (stream(ROLE, chunk("a"), END), "cut"),
        ([STREAM_HEAD, chunked(chunk("a")), Cut(0)], "cut"),
        ([STREAM_HEAD, b"5\r\nda", Cut(0.01)], "cut"),
        ([Cut(0)], "cut"),
        (stream(ROLE, b"data: {not json\n\n", DONE), "malformed"),
        (stream(event({"choices": 7}), DONE), "malformed"),
        ([b"I am no server\r\n\r\n", Cut(0.1)], "malformed"),
        (stream(ROLE, END, DONE), "empty"),
    ],
)
def test_faults_have_names(steps: Iterable[Step], fault: str) -> None:
    answer = one(*steps)
    assert answer.fault == fault
    assert answer.message


def test_nobody_listens() -> None:
    target = Target(parse_url("http://127.0.0.1:1/v1"), "m")
    data = [target.encode_stream(Prompt("", "x"), 1)] * 3
    found = run(drive(target.address, data, Pace(concurrency=2), limit_seconds=60))
    assert [answer.fault for answer in found.answers] == ["connect"] * 3


def test_a_stream_that_ends_by_closing() -> None:
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"

    async def asked() -> Run:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + chunk("a") + usage(1, 1) + DONE)
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        data = [Target(parse_url(url), "m").encode_stream(Prompt("", "x"), 1)] * 2
        found = await drive(parse_url(url), data, Pace(), limit_seconds=60)
        server.close()
        return found

    assert [answer.fault for answer in run(asked()).answers] == [None, None]


def test_a_kept_connection_that_was_closed_is_opened_anew() -> None:
    found = ask(lambda _: [*PLAIN, Cut(0.001)], 6)
    assert [answer.fault for answer in found.answers] == [None] * 6


class Clock:
    """A client's, which a script of the server sets. `reads`: how often the client looked at it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0

    def perf_counter(self) -> float:
        self.reads += 1
        return self.now

    def process_time(self) -> float:
        return 0.0

    def kept_by(self, *parts: Step) -> Iterable[Step]:
        """A streamed reply; seconds pass on this clock alone, once the client has what was sent."""
        for part in stream(*parts):
            if isinstance(part, float):
                self.now += part
                continue
            before = self.reads
            yield part
            while self.reads == before:
                yield 0.0


def test_times_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    for module in ("drive", "http"):
        monkeypatch.setattr(f"pyrite.cli.load.{module}.time", clock)
    parts: list[Step] = [0.1, chunk("a"), 0.02, chunk("b"), 0.2, chunk("c"), usage(9, 3), 0.3, DONE]
    found = summarize(ask(lambda _: clock.kept_by(ROLE, *parts), 3))
    assert found.first_token.p50 == found.first_token.max == pytest.approx(0.1)
    assert (found.gap.p50, found.gap.max) == (pytest.approx(0.02), pytest.approx(0.2))
    assert found.gap.count == 6
    assert found.per_output_token.mean == pytest.approx(0.11)
    assert found.latency.p99 == pytest.approx(0.62)
    assert found.seconds == pytest.approx(3 * 0.62)
    assert found.output_tokens_per_second == pytest.approx(9 / found.seconds)


def test_a_stall_ends_with_the_time() -> None:
    found = ask(lambda _: stream(ROLE, chunk("a"), 3600.0), 5, concurrency=2, limit=0.3)
    faults = [answer.fault for answer in found.answers]
    assert faults == ["timeout", "timeout", "unsent", "unsent", "unsent"]
    summary = summarize(found)
    assert (summary.answered, summary.faults) == (0, {"unsent": 3, "timeout": 2})
    for report in REPORTS.values():
        assert report(summary)


def test_so_many_at_once_and_no_more() -> None:
    now = [0, 0]

    def script(_: dict[str, Any]) -> Iterable[Step]:
        now[0] += 1
        now[1] = max(now)
        yield from stream(ROLE, chunk("a"), 0.01, chunk("b"), usage(1, 2), DONE)
        now[0] -= 1

    found = ask(script, 20, concurrency=4)
    assert summarize(found).answered == 20
    assert now == [0, 4]


def test_arrivals_do_not_wait_for_answers() -> None:
    arrived: list[int] = []

    def after_the_last(_: dict[str, Any]) -> Iterable[Step]:
        arrived.append(1)
        while len(arrived) < 20:
            yield 0.001
        yield from PLAIN

    assert summarize(ask(after_the_last, 20, rate=200.0, seed=3)).answered == 20
    again = ask(lambda _: PLAIN, 20, rate=200.0, seed=3)
    assert sorted(answer.sent for answer in again.answers)[-1] > again.answers[0].sent


def test_percentiles_by_hand() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 90, 99, 100)] == [1, 1, 50, 90, 99, 100]
    assert percentile([1.0, 2.0, 3.0], 50) == 2
    assert percentile([7.0], 99) == 7
    assert spread([3.0, 1.0, 2.0]).mean == 2
    assert spread([]).p50 is None


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
@pytest.mark.parametrize("shared", [0, 30])
def test_prompts_have_the_wanted_tokens(endpoint: str, shared: int) -> None:
    bodies: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> list[Step]:
        bodies.append(body)
        return stream(chunk("a"), usage(counting(body), 1), DONE)

    words = ("--requests", "9", "--warmup", "2", "--prompt-tokens", "90,64", "--endpoint", endpoint)
    summary = measure(script, *words, "--shared-prefix-tokens", str(shared))
    assert summary.answered == 9
    assert len(bodies) == 11
    assert {counting(body) for body in bodies} == {90, 64}
    assert (summary.fewest_prompt_tokens, summary.most_prompt_tokens) == (64, 90)
    texts = [json.dumps(body.get("messages") or body["prompt"]) for body in bodies]
    assert len(set(texts)) == 11, "each has its own"
    assert " time" not in "".join(texts), "it is two tokens on this server"
    same = len(str.split(common_start(texts)))
    assert same >= shared if shared else same < 12
    assert all(body["ignore_eos"] and body["max_tokens"] == 128 for body in bodies)


def common_start(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    length = next(i for i in range(len(first)) if first[i] != last[i])
    return first[:length]


def test_prompts_repeat_with_the_seed() -> None:
    import random

    vocabulary = Vocabulary(("a", "b", "c"), 9, 20)

    def make(seed: int) -> list[Prompt]:
        maker = PromptMaker(vocabulary, shared_tokens=5, dice=random.Random(seed))
        return [maker.make(60) for _ in range(3)]

    assert make(1) == make(1) != make(2)
    with pytest.raises(ParameterError, match="at least 24"):
        PromptMaker(vocabulary, shared_tokens=5, dice=random.Random(0)).make(23)


def test_a_server_without_counts_is_told() -> None:
    async def measured() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"".join(map(bytes, whole({"choices": []}))))  # type: ignore[arg-type]
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            await bench_serve.measure(options("--url", url, "--model", "m"), lambda text: None)

    with pytest.raises(RequestError, match=r"usage\.prompt_tokens"):
        run(measured())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--requests", "0"], "--requests"),
        (["--concurrency", "-1"], "--concurrency"),
        (["--rate", "0"], "--rate"),
        (["--rate", "nan"], "--rate"),
        (["--rate", "1", "--concurrency", "2"], "--rate"),
        (["--timeout", "inf"], "--timeout"),
        (["--prompt-tokens", "0"], "--prompt-tokens"),
        (["--output-tokens", "1,x"], "--output-tokens"),
        (["--warmup", "-1"], "--warmup"),
        (["--shared-prefix-tokens", "-1"], "--shared-prefix-tokens"),
        (["--url", "ftp://x"], "--url"),
        (["--url", "http://127.0.0.1:x"], "--url"),
        (["--body", "[1]"], "--body"),
        (["--url", "http://127.0.0.1:1/v1", "--model", "m"], "does not answer"),
    ],
)
def test_wrong_words_are_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "serve", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_client_is_light() -> None:
    """32 streams at once, 64 parts each."""
    text = stream(ROLE, *[chunk(" word")] * 64, usage(20, 64), DONE)
    with counted() as work:
        found = ask(lambda _: text, 64, concurrency=32)
    assert summarize(found).output_tokens == 64 * 64
    assert work.lines / (64 * 64) < 50, "lines of code a part"


def test_bench_serve_is_a_verb_of_two_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", "--help"]) == 0
    assert "--shared-prefix-tokens" in capsys.readouterr().out
    assert main(["completion", "bash"]) == 0
    assert "'bench serve'|'bench serve '*) words='" in capsys.readouterr().out
    assert main(["completion", "fish"]) == 0
    assert "-n '__fish_seen_subcommand_from bench' -a serve" in capsys.readouterr().out
