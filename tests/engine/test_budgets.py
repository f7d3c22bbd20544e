"""What a start may cost at most, in lines of Python and in memory, on the two real models.

`benchmarks/start.py` and `benchmarks/tokenizer.py` tell the seconds.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.formats.vocabulary import require_tokenizer
from pyrite.models.registry import open_model
from pyrite.text.tokenizer import Tokenizer
from work import counted

MB = 1_000_000
HELP_LINES = 100_000  # of everybody's code, imports included
HELP_MODULES = 120  # the interpreter's own included
TOKENIZER_LINES = 500
TOKENIZER_OBJECTS = 1000
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


HELP_PROGRAM = """
import sys
def line(frame, event, _):
    global count
    count += event == "line"
    return line
count = 0
sys.settrace(line)
try:
    from pyrite.cli.main import main
    main(["--help"])
except SystemExit:
    pass
sys.settrace(None)
print("\\n", count, len(sys.modules))
"""


@pytest.fixture(params=["smollm2", "gemma3"])
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(f"{request.param}_path")
    return found


def run(*arguments: str, home: Path) -> str:
    """What a Python process writes, which must end well."""
    environment = {**os.environ, "PYRITE_HOME": str(home)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env=environment, check=True
    ).stdout


def test_help(tmp_path: Path) -> None:
    lines, modules = map(int, run("-c", HELP_PROGRAM, home=tmp_path).split()[-2:])
    assert 1000 < lines < HELP_LINES
    assert modules < HELP_MODULES


@pytest.mark.model
def test_tokenizer(path: Path) -> None:
    """No line of Python runs for each token, and no object is made of it."""
    data = require_tokenizer(open_model(path))
    gc.collect()
    before = sys.getallocatedblocks()
    with counted() as work:
        tokenizer = Tokenizer.from_data(data)
        tokenizer.encode("ready")
    assert sys.getallocatedblocks() - before < TOKENIZER_OBJECTS
    assert work.lines < TOKENIZER_LINES


@pytest.mark.model
def test_resident_memory(path: Path, tmp_path: Path) -> None:
    """The first start, which packs the weights, and the second, which maps them."""
    for _ in range(2):
        output = run("-c", PROGRAM, str(path), home=tmp_path)
        kept, peak = json.loads(output)
        assert peak <= path.stat().st_size + kept + SPARE_BYTES
