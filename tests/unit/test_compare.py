"""The comparison with peers: what their output says, who is skipped and why, and the table."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))  # last: its files have everyday names

import compare  # noqa: E402
import peers  # noqa: E402
import serving  # noqa: E402
from comparison import Line, comparison_table, lines_of, ratios  # noqa: E402
from engines import (  # noqa: E402
    ENGINES,
    Command,
    Engine,
    Task,
    Unable,
    read_llama_cpp,
    read_ours,
    torch_environment,
)
from records import Record, Records, Subject  # noqa: E402
from server_peers import SERVERS, command_of  # noqa: E402
from works import WORKS  # noqa: E402

SUBJECT = Subject("tiny", "prefill 512", 2, "avx2", "a machine")
TASK = Task(Path("/models/tiny.gguf"), WORKS["prefill"], 2)


@pytest.fixture(autouse=True)
def no_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYRITE_PEERS", str(tmp_path / "peers"))
    return tmp_path / "peers"


def make_program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_figures_are_read_from_what_engines_print() -> None:
    row = {"tokens_per_second": 9.5, "of_limit": 0.5, "limit": "memory", "test": "pp512"}
    assert read_ours(json.dumps([row]))["of_limit"] == 0.5
    assert read_llama_cpp('[{"n_prompt": 512, "avg_ts": 12.25}]') == {"tokens_per_second": 12.25}
    lines = '\nwarming\n{"pl": 1, "speed_tg": 3.0}\n{"pl": 32, "speed_tg": 7.5}\n\nperf\n'
    assert read_llama_cpp(lines) == {"tokens_per_second": 7.5}
    driven = ENGINES["ik_llama.cpp"].read('loading\n{"tokens_per_second": 4, "version": "1"}\n')
    assert driven["tokens_per_second"] == 4


def test_llama_cpp_is_asked_for_each_work(no_peers: Path) -> None:
    for program in ("llama-bench", "llama-batched-bench", "llama-cli"):
        make_program(no_peers / "llama.cpp/bin" / program)
    commands = {
        name: ENGINES["llama.cpp"].command(replace(TASK, work=work)).words
        for name, work in WORKS.items()
    }
    programs = {name: Path(words[0]).name for name, words in commands.items()}
    assert programs.pop("streams") == "llama-batched-bench"
    assert programs.pop("start") == "llama-cli"
    assert set(programs.values()) == {"llama-bench"}
    deep = commands["deep"]
    assert deep[deep.index("-d") + 1] == "8192"
    streams = commands["streams"]
    assert int(streams[streams.index("-c") + 1]) == 32 * (32 + 16)


def test_a_build_without_a_program_is_told_from_none(no_peers: Path) -> None:
    streams = replace(TASK, work=WORKS["streams"])
    with pytest.raises(Unable, match="not installed"):
        ENGINES["llama.cpp"].command(streams)
    make_program(no_peers / "llama.cpp/bin/llama-bench")
    with pytest.raises(Unable, match="no llama-batched-bench"):
        ENGINES["llama.cpp"].command(streams)


def test_a_peer_that_cannot_be_had_says_why(no_peers: Path) -> None:
    with pytest.raises(Unable, match="make bench-peers"):
        ENGINES["mistral.rs"].command(TASK)
    no_peers.mkdir()
    (no_peers / "mistral.rs.reason").write_text("cannot be had here: no wheel\n")
    with pytest.raises(Unable, match="no wheel"):
        ENGINES["mistral.rs"].command(TASK)


def make_package(home: Path, module: str) -> None:
    (home / "lib/python3.11/site-packages" / module).mkdir(parents=True)


def test_who_reads_no_gguf_needs_a_folder(
    no_peers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYRITE_HOME", str(tmp_path))
    make_package(no_peers / "transformers", "transformers")
    with pytest.raises(Unable, match="no folder of this model"):
        ENGINES["transformers"].command(TASK)
    folder = tmp_path / "benchmarks/folders/tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert str(folder) in ENGINES["transformers"].command(TASK).words


def test_a_slow_peer_is_asked_for_less(no_peers: Path) -> None:
    make_package(no_peers / "mistral.rs", "mistralrs")
    words = ENGINES["mistral.rs"].command(TASK).words
    assert words[words.index("--prompt") + 1] == "64"
    with pytest.raises(Unable, match="8192"):
        ENGINES["mistral.rs"].command(replace(TASK, work=WORKS["deep"]))


def test_torch_is_kept_to_our_instructions(no_peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRITE_ISA", raising=False)
    assert "ATEN_CPU_CAPABILITY" not in torch_environment(2)
    monkeypatch.setenv("PYRITE_ISA", "avx2")
    assert torch_environment(2)["ATEN_CPU_CAPABILITY"] == "avx2"


def fake(name: str, words: list[str]) -> Engine:
    def command(task: Task) -> Command:
        return Command(words)

    return Engine(name, command, read_ours)


def run(words: list[str], timeout: float = 30) -> Record:
    return compare.run(SUBJECT, fake("pyrite default", words), TASK, 0, timeout)


def test_a_failure_is_a_record() -> None:
    row = '[{"tokens_per_second": 2.5, "of_limit": 0.25, "limit": "compute"}]'
    good = run([sys.executable, "-c", f"print({row!r})"])
    assert (good.value, good.of_limit, good.limit, good.why) == (2.5, 0.25, "compute", "")
    bad = run([sys.executable, "-c", "import sys; sys.exit('no such architecture')"])
    assert (bad.value, bad.why) == (None, "ended with 1: no such architecture")
    assert run(["sleep", "9"], timeout=0.1).why == "more than 0 s"
    assert "prints no figure" in run(["echo", "hello"]).why


def record(engine: str, number: int, value: float | None = None, **more: Any) -> Record:
    return Record(SUBJECT, engine, number, f"run-{engine}", "1.0", value, **more)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    found = Records(tmp_path / "kept" / "compare.json")
    for number, (mine, theirs) in enumerate(((10.0, 5.0), (12.0, 4.0), (9.0, 3.0))):
        found.add(record("pyrite default", number, mine, of_limit=0.5, limit="memory"))
        found.add(record("pyrite fast", number, theirs / 2, of_limit=0.2, limit="memory"))
        found.add(record("llama.cpp", number, theirs))
    found.add(record("vllm", 0, why="reads no GGUF"))
    return found


def test_records_outlive_the_process(records: Records) -> None:
    again = Records(records.path)
    assert again.all == records.all
    again.forget([SUBJECT], ["llama.cpp"])
    assert not Records(records.path).find(SUBJECT, "llama.cpp")
    assert Records(records.path).find(SUBJECT, "pyrite fast")


def test_the_table_tells_medians_ratios_and_losses(records: Records) -> None:
    groups = lines_of(records, [(SUBJECT, "t/s")], [*ENGINES])
    text = comparison_table(groups)
    rows = {line.split("|")[3].strip(): line for line in text.splitlines() if "|" in line}
    assert "10.0 (9.0 to 12.0)" in rows["pyrite default"]
    assert "50% of memory" in rows["pyrite default"]
    assert "2.50" not in rows["llama.cpp"]
    assert "3.00 (2.00 to 3.00)" in rows["llama.cpp"]
    assert "0.50 (0.50 to 0.50)" in rows["llama.cpp"]
    assert "- (reads no GGUF)" in rows["vllm"]
    assert "mistral.rs" not in rows
    assert "- tiny, prefill 512: pyrite fast is 0.50 times llama.cpp" in text
    assert "pyrite default is" not in text.split("Where we lose:")[1]
    assert "1.0: run-llama.cpp" in text


def test_less_time_is_more_speed() -> None:
    ours = Line(SUBJECT, "s", "pyrite default", [record("pyrite default", 0, 0.2)])
    theirs = Line(SUBJECT, "s", "llama.cpp", [record("llama.cpp", 0, 0.5)])
    assert ratios(ours, theirs) == [2.5]


def test_what_is_there_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def counted(subject: Subject, engine: Engine, task: Task, number: int, limit: float) -> Record:
        asked.append((engine.name, number))
        if engine.name == "vllm":
            return Record(subject, engine.name, number, "", why="not installed")
        why = "" if engine.is_ours else "no such architecture"
        value = 1.0 if engine.is_ours else None
        return Record(subject, engine.name, number, "a command", "", value, why)

    monkeypatch.setattr(compare, "run", counted)
    monkeypatch.setattr(compare, "warm_up", lambda model, threads: None)
    engines = [ENGINES[name] for name in ("pyrite default", "llama.cpp", "vllm")]
    plan = compare.Plan([str(tmp_path / "m.gguf")], [WORKS["prefill"]], engines, 2, 2, 9)
    records = Records(tmp_path / "kept.json")
    compare.measure(plan, records)
    first = [("pyrite default", 0), ("llama.cpp", 0), ("vllm", 0), ("pyrite default", 1)]
    assert asked[:4] == first
    del asked[:]
    compare.measure(replace(plan, pairs=3), records)
    assert ("pyrite default", 2) in asked
    assert {name for name, _ in asked} == {"pyrite default", "vllm"}
    assert len(records.find(plan.subject(plan.models[0], plan.works[0]), "vllm")) == 3


def test_pip_errors_are_told_in_one_line() -> None:
    text = "Collecting x\nERROR: No matching distribution found for x\n\n[notice] a new pip\n"
    assert peers.last_line(text) == "ERROR: No matching distribution found for x"


def test_a_failed_install_stops_nothing(no_peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(words: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        failed = "install" in words
        return subprocess.CompletedProcess(words, int(failed), "", "ERROR: no network\n")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert peers.install("xllamacpp") is False
    assert peers.missing("xllamacpp") == "cannot be had here: ERROR: no network"


@pytest.mark.parametrize(
    "script", ["compare.py", "peers.py", "serving.py", "tokenizer.py", "sampler.py"]
)
def test_help(script: str) -> None:
    words = [sys.executable, str(BENCHMARKS / script), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "usage:" in done.stdout


def served(server: str, number: int, speed: float | None, why: str = "") -> serving.Run:
    summary: dict[str, Any] | None = None
    if speed is not None:
        times = {"p50": 1.0, "p99": 2.0, "max": 3.0}
        summary = {"output_tokens_per_second": speed, "first_token": times, "gap": times}
        summary["processor_ms_per_token"] = 4.0
    return serving.Run("m", "own", server, number, "", 32, f"run {server}", "1.0", summary, why)


def test_serving_table(tmp_path: Path) -> None:
    runs = [served("pyrite default", 0, 120.0), served("pyrite default", 1, 100.0)]
    runs += [served("llama.cpp", 0, 40.0), served("llama.cpp", 1, 50.0)]
    runs += [served("mistral.rs", 0, None, "0 of 32 answered"), served("ollama", 0, None, "none")]
    serving.write_runs(tmp_path / "kept.json", runs)
    text = serving.serving_table(serving.read_runs(tmp_path / "kept.json"), list(SERVERS))
    rows = {line.split("|")[2].strip(): line for line in text.splitlines() if "|" in line}
    assert "110.00 (100.00 to 120.00)" in rows["pyrite default"]
    assert "2.50 (2.00 to 3.00)" in rows["llama.cpp"]
    assert "0 of 32 answered" in rows["mistral.rs"]
    assert "nan" not in text
    assert "pyrite fast" not in rows


@pytest.mark.parametrize("name", ["ollama", "ik_llama.cpp", "llama.cpp", "vllm", "xllamacpp"])
def test_a_server_that_is_not_there_says_why(name: str) -> None:
    with pytest.raises(Unable):
        command_of(name, TASK.model, threads=2, context=2048, slots=32)


def test_a_peer_serves_as_many_as_ask(no_peers: Path) -> None:
    make_program(no_peers / "llama.cpp/bin/llama-server")
    words = command_of("llama.cpp", TASK.model, threads=2, context=100, slots=7).words
    assert words[words.index("-c") + 1] == "700"
