"""A quantizer that a signal ends at any moment: the same command goes on, to the same bytes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.patience import until

from pyrite.formats.gguf_writer import TensorSpec, write_gguf

LAYERS, ROWS, COLUMNS = 12, 64, 256

# The verb, with a pause after each slab and a journal that is written for each tensor. The last
# tensor takes for ever: a signal comes before its end, however late.
SLOW = """
import sys, time
from pyrite import conversion
from pyrite.cli.main import entry
from pyrite.formats import gguf_partial
gguf_partial.SYNCED_SECONDS = 0.0
conversion.SLAB_VALUES = 16 * 256
write = gguf_partial.PartialGguf.write
def slowly(self, name, *given):
    write(self, name, *given)
    time.sleep(3600 if name == "LAST" else 0.03)
gguf_partial.PartialGguf.write = slowly
entry()
""".replace("LAST", f"blk.{LAYERS - 1}.attn_q.weight")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "model.gguf"
    names = [f"blk.{index}.attn_q.weight" for index in range(LAYERS)]
    specs = [TensorSpec(name, "F32", (ROWS, COLUMNS)) for name in names]

    def values(spec: TensorSpec):
        seed = names.index(spec.name)
        numbers = np.random.default_rng(seed).standard_normal((ROWS, COLUMNS), dtype=np.float32)
        return numbers.view(np.uint8).reshape(-1)

    write_gguf(path, {"general.architecture": "llama", "llama.block_count": LAYERS}, specs, values)
    return path


def command(source: Path, out: Path) -> list[str]:
    return ["quantize", str(source), str(out), "--type", "q4_k_m", "-t", "1"]


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    out = tmp_path_factory.mktemp("whole") / "out.gguf"
    subprocess.run([sys.executable, "-m", "pyrite", *command(source, out)], check=True, timeout=60)
    return out.read_bytes()


def interrupted(source: Path, out: Path, number: int, seconds: float) -> tuple[int, str]:
    """A run that gets a signal so long after its first tensor is whole: its exit code and words."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *command(source, out)], stderr=subprocess.PIPE, text=True
    )
    journal = out.with_name(out.name + ".journal")
    until(lambda: journal.exists() and len(journal.read_text().splitlines()) > 1)
    time.sleep(seconds)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_it_goes_on_after_a_signal(
    source: Path, whole: bytes, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out.gguf"
    seconds = random.Random(number).uniform(0, 0.4)
    code, said = interrupted(source, out, number, seconds)
    assert code == CODES[number], said
    assert not out.exists()
    assert out.with_name("out.gguf.partial").exists()
    again = subprocess.run(
        [sys.executable, "-m", "pyrite", *command(source, out)],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert "tensors of it before" in again.stdout
    assert out.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]


def test_it_goes_on_after_several(source: Path, whole: bytes, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    for number in CODES:
        interrupted(source, out, number, 0.05)
    subprocess.run([sys.executable, "-m", "pyrite", *command(source, out)], check=True, timeout=60)
    assert out.read_bytes() == whole


def test_before_anything_is_whole_nothing_is_left(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    process = subprocess.Popen([sys.executable, "-c", SLOW, *command(source, out)])
    until(lambda: out.with_name("out.gguf.journal").exists())
    process.terminate()
    assert process.wait(60) == 143
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left in ([], ["out.gguf.journal", "out.gguf.partial"])  # a tensor may be whole already
