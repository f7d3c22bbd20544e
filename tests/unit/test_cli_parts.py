"""Parts of the command line by themselves: options, messages of several lines, blocks, bars."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable

import pytest

from pyrite.cli.options import SAMPLING, parsed
from pyrite.cli.progress import Progress, bar
from pyrite.cli.reader import read_message
from pyrite.cli.session import Answer
from pyrite.cli.sinks import MarkdownSink, PlainSink, split_blocks
from pyrite.cli.terminal import Terminal, size
from pyrite.cli.timings import Stages, since_process_start
from pyrite.errors import ParameterError
from pyrite.request import Timings

PERSON = Terminal(stdin=True, stdout=True, stderr=True, colour=False, width=80)
PROGRAM = Terminal(stdin=False, stdout=False, stderr=False, colour=False, width=80)


def lines(*texts: str) -> Callable[[str], str]:
    left = list(texts)

    def ask(prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return ask


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["hello"], "hello"),
        (['"""one', "two", 'three"""'], "one\ntwo\nthree"),
        (['"""', "one", "", "two", '"""'], "one\n\ntwo"),
        (['"""one"""'], "one"),
        (['"""'], None),
        (["one\\", "two\\", "three"], "one\ntwo\nthree"),
        (['say """ there'], 'say """ there'),
        ([""], ""),
        ([], None),
    ],
)
def test_messages_of_several_lines(typed: list[str], message: str | None) -> None:
    if message is None:
        with pytest.raises(EOFError):
            read_message(lines(*typed))
    else:
        assert read_message(lines(*typed)) == message


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("one\n\ntwo", "one\n\n"),
        ("one\ntwo", ""),
        ("```\na\n\nb", ""),
        ("```\na\n\nb\n```\n\nc", "```\na\n\nb\n```\n\n"),
        ("~~~\n```\n\n~~~\n\nx", "~~~\n```\n\n~~~\n\n"),
        ("a\n   \nb\n\n", "a\n   \nb\n\n"),
        ("", ""),
    ],
)
def test_blocks_are_cut_outside_fences(text: str, done: str) -> None:
    assert split_blocks(text) == (done, text[len(done) :])


def test_markdown_loses_no_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = "# Head\n\nSome **bold**\n\n<think>\nhm\n</think>\n\n```py\nx = 1\n\ny = 2\n```\nend"
    sink = MarkdownSink(PERSON)
    for start in range(0, len(text), 5):
        sink.write(text[start : start + 5])
    sink.close()
    shown = capsys.readouterr().out
    for word in ("Head", "bold", "<think>", "hm", "</think>", "x = 1", "y = 2", "end"):
        assert word in shown
    assert "**" not in shown


def test_plain_text_ends_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    for text, shown in (("ab", "ab\n"), ("ab\n", "ab\n"), ("", "")):
        sink = PlainSink()
        sink.write(text)
        sink.close()
        assert capsys.readouterr().out == shown


def test_sampling_options_are_those_of_the_engine() -> None:
    from dataclasses import fields

    from pyrite.sampling.params import SamplingParams

    known = {one.name for one in fields(SamplingParams)}
    apart = {"dry_breakers", "skip_special_tokens", "shown_token_ids", "include_stop"}
    apart |= {"logprobs", "prompt_logprobs", "grammar"}
    assert set(SAMPLING) == known - apart


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("top_k", "40", 40),
        ("temperature", "0.5", 0.5),
        ("stop", "a\\n", ("a\n",)),
        ("stop_token_ids", "1,2", (1, 2)),
        ("logit_bias", "5:-1.5,7:100", {5: -1.5, 7: 100.0}),
        ("ignore_eos", "on", True),
    ],
)
def test_values_of_options(name: str, text: str, value: object) -> None:
    assert parsed(name, text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("top_k", "1.5"), ("temperature", "hot"), ("logit_bias", "x"), ("ignore_eos", "maybe")],
)
def test_values_that_are_none(name: str, text: str) -> None:
    with pytest.raises(ParameterError, match=name):
        parsed(name, text)


def test_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, silent in ((PERSON, False), (PROGRAM, True)):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("pulling x", terminal) as progress:
            progress(0, 100 << 20)
            progress(100 << 20, 100 << 20)
        assert (stream.getvalue() == "") == silent
        if not silent:
            assert "100%  100.0 MiB of 100.0 MiB" in stream.getvalue()
            assert stream.getvalue().endswith("\n")
    assert bar(5, None) == "5 B"
    assert bar(50, 100) == "[########--------]  50%  50 B of 100 B"


def test_progress_of_short_work_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stream = [100.0], io.StringIO()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress("packing x", PERSON, after_seconds=1.0)
    for seconds, shown in ((0.9, 0), (1.1, 1), (0.9, 1)):  # works, one after the other
        progress(1, 3)
        now[0] += seconds
        progress(2, 3)
        progress(3, 3)
        assert stream.getvalue().count("\n") == shown
    assert " 66%  2 B of 3 B  0 B/s" in stream.getvalue()


def test_a_broken_terminal_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    Progress("packing x", PERSON)(1, 1)


def test_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1024, 3 << 29)] == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]


def test_stages_know_the_process() -> None:
    lived = since_process_start()
    assert lived is not None
    assert 0 < lived < 24 * 3600


def test_stages_add_up() -> None:
    stages = Stages()
    stages.lap("find")
    time.sleep(0.02)
    stages.loaded({"open": 0.004, "engine": 0.001})
    assert list(stages.seconds)[-2:] == ["open", "engine"]
    assert stages.seconds["engine"] >= 0.015, "with what no stage of the loading had"
    time.sleep(0.01)
    stages.note_first_token()
    stages.note_first_token()
    answer = Answer("", (), "length", None, Timings(prompt_seconds=0.004, decode_seconds=0.0))
    stages.answered(answer)
    assert stages.seconds["prompt"] == 0.004
    assert stages.first_token is not None
    assert sum(stages.seconds.values()) == pytest.approx(stages.first_token)
    assert stages.lines(answer)[0].startswith("first token ")
