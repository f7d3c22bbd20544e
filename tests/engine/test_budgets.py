"""What a start may cost at most, in processor time and memory, on the two real models.

Time is the processor's, the best of a few runs, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pyrite.formats.vocabulary import require_tokenizer
from pyrite.models.registry import open_model
from pyrite.text.tokenizer import Tokenizer

MB = 1_000_000
HELP_SECONDS = 0.1
TOKENIZER_SECONDS = 0.05
SPARE_BYTES = 120 * MB  # beyond the file and its keys and values
PROMPT_TOKENS = 500
ANSWER_TOKENS = 20

PROGRAM = f"""
import json, sys
import pyrite
from pyrite.models.estimate import kv_bytes_per_token
model = pyrite.load(sys.argv[1], threads=2)
ids = [5 + number % 300 for number in range({PROMPT_TOKENS})]
answer = model.generate(ids, temperature=0, max_tokens={ANSWER_TOKENS}, ignore_eos=True)
kept = len(ids + list(answer.token_ids)) * kv_bytes_per_token(model.loaded.plan)
# Of this program alone: what a parent reports of its child begins with the parent's own size.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([kept, int(status["VmHWM"].split()[0]) * 1024]))
"""


@pytest.fixture(params=["smollm2", "gemma3"])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(f"{request.param}_path")
    return found


def run(*arguments: str, home: Path) -> tuple[str, os.struct_rusage]:
    """Output and use of resources of a Python process that must end well."""
    environment = {**os.environ, "PYRITE_HOME": str(home)}
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    output = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return output, usage


def test_help(tmp_path: Path) -> None:
    usages = [run("-m", "pyrite", "--help", home=tmp_path)[1] for _ in range(3)]
    assert min(usage.ru_utime + usage.ru_stime for usage in usages) < HELP_SECONDS


@pytest.mark.model
def test_tokenizer(path: Path) -> None:
    times = []
    for _ in range(3):
        data = require_tokenizer(open_model(path))
        start = time.process_time()
        Tokenizer.from_data(data).encode("ready")
        times.append(time.process_time() - start)
    assert min(times) < TOKENIZER_SECONDS


@pytest.mark.model
def test_resident_memory(path: Path, tmp_path: Path) -> None:
    """The first start, which packs the weights, and the second, which maps them."""
    for _ in range(2):
        output, _ = run("-c", PROGRAM, str(path), home=tmp_path)
        kept, peak = json.loads(output)
        assert peak <= path.stat().st_size + kept + SPARE_BYTES
