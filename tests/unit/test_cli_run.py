"""`pyrite run` and its neighbours on a tiny real model: pipes, JSON, interrupts, a chat by hand."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pyrite.cli.main import main
from pyrite.models.registry import open_model

PYRITE = [sys.executable, "-c", "from pyrite.cli.main import entry; entry()"]
GREEDY = ["--temp", "0", "-n", "12", "--ignore-eos"]


@pytest.fixture(scope="module")
def tiny(golden: Path) -> str:
    return str(golden / "gguf_models" / "qwen2_q8_0.gguf")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    home = tmp_path_factory.mktemp("home")
    return {**os.environ, "PYRITE_HOME": str(home), "TERM": "xterm", "NO_COLOR": "1"}


def run(
    environment: Mapping[str, str], *arguments: str, piped: str | bytes = ""
) -> subprocess.CompletedProcess[bytes]:
    data = piped.encode() if isinstance(piped, str) else piped
    return subprocess.run(
        [*PYRITE, *arguments], input=data, capture_output=True, env=environment, timeout=60
    )


def test_stdout_holds_the_answer_alone(tiny: str, environment: Mapping[str, str]) -> None:
    given = run(environment, "run", tiny, "hello", *GREEDY)
    piped = run(environment, "run", tiny, *GREEDY, piped="hello")
    assert given.returncode == piped.returncode == 0
    assert given.stderr == piped.stderr == b""
    assert given.stdout == piped.stdout
    assert given.stdout.endswith(b"\n")


def test_options_may_stand_between_model_and_prompt(
    tiny: str, environment: Mapping[str, str]
) -> None:
    last = run(environment, "run", tiny, "hello", *GREEDY)
    between = run(environment, "run", tiny, *GREEDY, "hello")
    dashed = run(environment, "run", tiny, *GREEDY, "--", "-hello")
    assert (between.returncode, between.stdout) == (0, last.stdout)
    assert (dashed.returncode, dashed.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("closed", "code", "error"),
    [("0<&-", 0, b""), ("1>&-", 1, b"pyrite: error: stdout is closed\n"), ("2>&-", 0, b"")],
)
def test_a_stream_is_closed(
    closed: str, code: int, error: bytes, tiny: str, environment: Mapping[str, str]
) -> None:
    program = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", program, "sh", *PYRITE, "run", tiny, "hello", *GREEDY],
        capture_output=True,
        env=environment,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, error)
    assert (done.stdout != b"") == (code == 0)


def test_json_has_the_answer_and_its_figures(tiny: str, environment: Mapping[str, str]) -> None:
    plain = run(environment, "run", tiny, "hello", *GREEDY)
    done = run(environment, "run", tiny, "hello", *GREEDY, "--json")
    answer = json.loads(done.stdout)
    assert answer["text"] + "\n" == plain.stdout.decode()
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == len(answer["token_ids"]) == 12
    assert answer["timings"]["first_token_seconds"] >= answer["timings"]["load_seconds"] > 0


def test_prompt_and_pipe_are_joined(tiny: str, environment: Mapping[str, str]) -> None:
    joined = run(environment, "run", tiny, "Sum up:", *GREEDY, "--json", piped="the text")
    alone = run(environment, "run", tiny, "Sum up:\n\nthe text", *GREEDY, "--json")
    assert json.loads(joined.stdout)["token_ids"] == json.loads(alone.stdout)["token_ids"]


def test_raw_applies_no_template(tiny: str, environment: Mapping[str, str]) -> None:
    raw = json.loads(run(environment, "run", tiny, "hello", *GREEDY, "--raw", "--json").stdout)
    chat = json.loads(run(environment, "run", tiny, "hello", *GREEDY, "--json").stdout)
    assert raw["usage"]["prompt_tokens"] < chat["usage"]["prompt_tokens"]


def test_timings_go_to_stderr(tiny: str, environment: Mapping[str, str]) -> None:
    done = run(environment, "run", tiny, "hello", *GREEDY, "--timings")
    first, *lines = done.stderr.decode().splitlines()
    total = float(first.split()[2])
    names = [line[2:17].strip() for line in lines if line.startswith("  ")]
    assert names[:2] == ["interpreter", "command line"]
    assert {"import numpy", "open", "plan", "weights", "tokenizer", "prompt"} <= set(names)
    spent = sum(float(line[17:].split()[0]) for line in lines if line.startswith("  "))
    assert spent / 1000 == pytest.approx(total, abs=0.003), "the stages add up"
    assert [line.split()[0] for line in lines[-2:]] == ["prompt", "answer"]


@pytest.mark.parametrize(
    ("arguments", "piped", "code", "text"),
    [
        ([], "", 2, "PROMPT"),
        (["hi", "--temp", "9"], "", 2, "temperature = 9.0: must be"),
        (["hi", "--precision", "some"], "", 2, "precision = 'some'"),
        (["hi", "--backend", "abacus"], "", 2, "backend = 'abacus'"),
        (["hi", "--context", "100000"], "", 2, "context = 100000"),
        (["word " * 300], "", 2, "the context holds"),
        (["hi", "--system", "x", "--raw"], "", 2, "--system"),
        ([], b"\xff\xfe", 2, "stdin"),
    ],
)
def test_bad_requests(
    arguments: list[str],
    piped: str | bytes,
    code: int,
    text: str,
    tiny: str,
    environment: Mapping[str, str],
) -> None:
    done = run(environment, "run", tiny, *arguments, piped=piped)
    assert (done.returncode, done.stdout.strip()) == (code, b"")
    assert text in done.stderr.decode()
    assert done.stderr.count(b"\n") == 1


def test_truncated_file(tiny: str, environment: Mapping[str, str], tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(tiny).read_bytes()[:100_000])
    done = run(environment, "run", str(cut), "hi")
    assert done.returncode == 3
    assert done.stderr.startswith(b"pyrite: error: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("template", ["{{ 'a' * 10**9 }}", "{{ ''.__class__.__mro__ }}"])
def test_hostile_template_in_the_file(
    template: str, tiny: str, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """Every place of the command line that renders it."""

    own = open_model(tiny).chat_template
    assert own is not None
    hostile = tmp_path / "hostile.gguf"
    padded = template.ljust(len(own.encode())).encode()
    hostile.write_bytes(Path(tiny).read_bytes().replace(own.encode(), padded))
    done = run(environment, "run", str(hostile), "hi")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"chat template" in done.stderr
    examined = run(environment, "doctor", str(hostile))
    assert examined.returncode == 1
    assert re.search(rb"fault +template", examined.stdout)
    assert run(environment, "show", str(hostile)).returncode == 0


def test_reader_that_goes_away(tiny: str, environment: Mapping[str, str]) -> None:
    """The output is dropped, quietly; the exit code is that of a broken pipe."""
    for verb in (["run", tiny, "hi", "-n", "100", "--ignore-eos"], ["--help"], ["show", tiny]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*PYRITE, *verb],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (141, b"")


def test_full_disk_is_said(tiny: str, environment: Mapping[str, str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*PYRITE, "show", tiny],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_interrupt_ends_a_single_answer(tiny: str, environment: Mapping[str, str]) -> None:
    process = subprocess.Popen(
        [*PYRITE, "run", tiny, "hi", "-n", "100000", "--ignore-eos", "--backend", "reference"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_gives_the_cursor_back(
    number: signal.Signals, code: int, tiny: str, environment: Mapping[str, str]
) -> None:
    person = Person(["run", tiny, "--ignore-eos", "--backend", "reference"], environment)
    person.sees(">>> ")
    person.type("hello\n")
    person.sees(r"(?s)\x1b\[\?25l.*\x1b\[2K")  # the first words are drawn
    os.kill(person.pid, number)
    person.sees(r"\x1b\[\?25h")
    assert person.leaves() == code
    os.close(person.terminal)


# A person at a terminal.


class Person:
    """Types into a pyrite that believes to be on a terminal, and reads what it shows."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe(PYRITE[0], [*PYRITE, *arguments], dict(environment))
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def sees(self, pattern: str, seconds: float = 60) -> str:
        """Waits for the pattern; gives what was shown up to its end, and forgets it."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.shown)):
            left = deadline - time.monotonic()
            assert left > 0, f"{pattern!r} not seen in {self.shown!r}"
            if select.select([self.terminal], [], [], left)[0]:
                try:
                    self.shown += os.read(self.terminal, 4096).decode(errors="replace")
                except OSError:  # the program has gone
                    assert re.search(pattern, self.shown), f"ended with {self.shown!r}"
        before, self.shown = self.shown[: match.end()], self.shown[match.end() :]
        return before

    def interrupts_a_line(self) -> None:
        """Ctrl-C while a line is typed; its echo tells that the program waits for keys."""
        self.type("half")
        self.sees("half")
        time.sleep(0.1)
        self.type("\x03")

    def leaves(self) -> int:
        """The exit code, once the program ends."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.terminal, 4096).decode(errors="replace")
                except OSError:
                    break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def chat(tiny: str, environment: Mapping[str, str]) -> Iterator[Person]:
    person = Person(["run", tiny, "--temp", "0", "-n", "8", "--ignore-eos"], environment)
    person.sees(">>> ")
    yield person
    os.close(person.terminal)


def test_a_chat(chat: Person, tmp_path: Path) -> None:
    chat.type("hello\n")
    chat.sees(r"hello\r\n")
    first = chat.sees(">>> ")
    chat.type("/regen\n")
    chat.sees(r"/regen\r\n")
    assert chat.sees(">>> ") == first
    chat.type("/stats\n")
    assert "tokens/s" in chat.sees(">>> ")
    chat.type(f"/save {tmp_path}/kept.json\n")
    chat.sees("saved to")
    chat.type("/clear\n")
    chat.sees("cleared")
    chat.type(f"/load {tmp_path}/kept.json\n")
    chat.sees("2 messages from")
    chat.type("/set temprature 1\n")
    chat.sees(r"did you mean temperature\?")
    chat.type("/set temperature 9\n")
    chat.sees("error: temperature = 9.0")
    chat.type("/set temperature 0.5\n")
    chat.sees("temperature = 0.5")
    chat.type("/system Be brief.\n")
    chat.sees("system: Be brief.")
    chat.type('"""one\ntwo"""\n')
    chat.sees('two"""')
    chat.sees(">>> ")
    chat.type("/help\n")
    chat.sees("/bye +leave")
    chat.type("/nonsense\n")
    chat.sees("error: command = '/nonsense'")
    chat.type("/bye\n")
    assert chat.leaves() == 0
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert [message["role"] for message in kept["messages"]] == ["user", "assistant"]


def test_end_of_input_leaves(chat: Person) -> None:
    chat.type("\x04")
    assert chat.leaves() == 0


def test_interrupt_at_the_prompt(chat: Person) -> None:
    chat.interrupts_a_line()
    chat.sees("again, or /bye, to leave")
    chat.sees(">>> ")
    chat.interrupts_a_line()
    assert chat.leaves() == 130


def test_interrupt_ends_the_answer_and_twice_the_program(
    tiny: str, environment: Mapping[str, str]
) -> None:
    arguments = ["run", tiny, "--ignore-eos", "--backend", "reference", "--plain"]
    person = Person(arguments, environment)
    person.sees(">>> ")
    person.type("hello\n")
    person.sees(r"hello\r\n.")
    person.type("\x03")
    person.sees(r"\(stopped\)")
    person.sees(">>> ")
    person.interrupts_a_line()
    assert person.leaves() == 130
    os.close(person.terminal)


def test_history_is_kept(chat: Person, environment: Mapping[str, str]) -> None:
    chat.type("remember this line\n")
    chat.sees(r"line\r\n")
    chat.sees(">>> ")
    chat.type("/bye\n")
    assert chat.leaves() == 0
    history = Path(environment["PYRITE_HOME"]) / "history"
    assert "remember this line" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_a_full_conversation_says_so_and_goes_on(chat: Person) -> None:
    chat.type("word " * 150 + "\n")
    chat.sees("error: .*the context holds 256")
    chat.sees(">>> ")
    chat.type("hi\n")
    chat.sees(r"hi\r\n")
    chat.sees(">>> ")
    chat.type("/bye\n")
    assert chat.leaves() == 0


# Verbs that only look.


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def test_show(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(output(capsys, "show", tiny, "--json"))
    assert facts["path"] == tiny
    assert facts["architecture"] == "qwen2"
    assert (facts["layers"], facts["context"], facts["vocabulary"]) == (2, 256, 384)
    assert sum(row["tensors"] for row in facts["types"].values()) == facts["tensors"]
    assert facts["tokenizer"]["tokens"] == 384
    assert facts["chat_template"] is True
    text = output(capsys, "show", tiny)
    assert all(word in text for word in ("qwen2", "Q8_0", "256 tokens", "end of answer"))
    assert "after the passes" in output(capsys, "show", tiny, "--plan")


def test_show_of_an_architecture_that_is_not_known(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's own facts are told all the same."""
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(Path(tiny).read_bytes().replace(b"qwen2", b"qwen9"))
    facts = json.loads(output(capsys, "show", str(foreign), "--json"))
    assert "qwen9" in facts["problem"]
    assert facts["architecture"] == "qwen9"
    assert main(["show", str(foreign), "--plan"]) == 3


def test_tokenize(
    tiny: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = json.loads(output(capsys, "tokenize", tiny, "a<|im_end|>b", "--json"))
    assert "".join(found["pieces"]) == "a<|im_end|>b"
    special = json.loads(output(capsys, "tokenize", tiny, "a<|im_end|>b", "--json", "--special"))
    assert special["count"] < found["count"]
    ids = output(capsys, "tokenize", tiny, "a<|im_end|>b", "--ids")
    assert [int(word) for word in ids.split()] == found["ids"]
    piped: Any = io.TextIOWrapper(io.BytesIO(b"a<|im_end|>b"))
    monkeypatch.setattr(sys, "stdin", piped)
    assert len(output(capsys, "tokenize", tiny).splitlines()) == found["count"]


def test_bench(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["bench", tiny, "-p", "16", "-n", "4,8", "-d", "0,32", "-b", "1,3", "-r", "2"]
    rows = json.loads(output(capsys, *small, "-o", "json"))
    names = ["pp16", "tg4", "tg4 x 3", "tg8", "tg8 x 3"]
    assert [row["test"] for row in rows] == names + [f"{name} @ d32" for name in names]
    for row in rows:
        assert row["tokens_per_second"] > 0
        assert len(row["repetitions"]) == 2
        assert row["of_limit"] == max(row["of_memory"], row["of_compute"]) > 0
        assert row["limits"]["threads"] == row["threads"]
    table = output(capsys, *small).splitlines()
    assert len({len(line) for line in table}) == 1
    assert "tg8 x 3 @ d32" in table[-1]
    csv_lines = output(capsys, *small, "-o", "csv").splitlines()
    assert csv_lines[0].startswith("model,size_bytes,parameters,backend")
    assert len(csv_lines) == 11


def test_limits(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "bench", "--limits", "-t", "1")
    assert re.search(r"\| read +\| memory.*\| GB/s +\| +[1-9][0-9.]* \|\n", text)
    assert re.search(r"\| scalar +\| .*floats.*\| GMAC/s \| +[1-9][0-9.]* \|\n", text)


def test_doctor(tiny: str, capsys: pytest.CaptureFixture[str]) -> None:
    findings = json.loads(output(capsys, "doctor", tiny, "--json"))
    states = {one["name"]: one["state"] for one in findings}
    beside = [states.pop(name) for name in ("checksum", "tokenizer.json", "quantization")]
    assert beside == ["skipped"] * 3, "there is nothing to compare with"
    assert set(states.values()) == {"ok"}
    assert {"instructions", "threads", "tensors", "template", "numbers"} <= states.keys()


def test_doctor_finds_faults(
    tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    norm = open_model(tiny).tensors["output_norm.weight"].data.tobytes()
    sick = tmp_path / "sick.gguf"
    sick.write_bytes(Path(tiny).read_bytes().replace(norm, b"\x00\x00\xc0\x7f" * (len(norm) // 4)))
    assert main(["doctor", str(sick)]) == 1
    assert re.search(r"fault +tensors +infinite or not a number in 1", capsys.readouterr().out)
    monkeypatch.setenv("PYRITE_ISA", "abacus")
    assert main(["doctor"]) == 1
    assert re.search(r"fault +instructions +PYRITE_ISA=abacus: .*scalar", capsys.readouterr().out)
    assert main(["doctor", str(tmp_path)]) == 1
