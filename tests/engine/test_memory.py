"""What a loaded model holds in memory, and what is said where there is too little of it.

Each case runs in a process of its own; bounds are generous.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMITED = """
import resource, sys
import pyrite.backends.cpu, pyrite.formats.gguf_checkpoint  # with their libraries
from pyrite.errors import CapacityError
from pyrite.llm import load
from pyrite.memory import address_space_left
limit, path, extra = sys.argv[1], sys.argv[2], int(sys.argv[3]) << 20
field = {"AS": 0, "DATA": 5}[limit]
used = int(open("/proc/self/statm").read().split()[field]) * resource.getpagesize()
resource.setrlimit(getattr(resource, "RLIMIT_" + limit), (used + extra, used + extra))
assert 0 <= address_space_left() <= extra
try:
    with load(path, threads=2) as model:
        print(model.loaded.engine.runner.num_pages, len(model.generate("hi", max_tokens=2)) > 0)
except CapacityError as error:
    print("refused:", error)
"""


def outcome(home: Path, program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYRITE_HOME": str(home)},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tiny(golden: Path) -> Path:
    return golden / "gguf_models" / "llama_q8_0.gguf"


@pytest.mark.parametrize("limit", ["AS", "DATA"])
@pytest.mark.parametrize("extra", [0, 2, 60, 400])
def test_a_limit_on_address_space(tiny: Path, tmp_path: Path, limit: str, extra: int) -> None:
    """The model and its pages fit into the last one; what does not fit is refused in words."""
    said = outcome(tmp_path, LIMITED, limit, tiny, extra)
    if extra == 400:
        assert said.endswith(" True")
    else:
        assert said.startswith("refused: ")
        assert "MiB" in said or "bytes" in said


HELD = """
import json, re, sys
from pyrite.llm import load
with load(sys.argv[1], context=2048, threads=2) as model:
    model.generate("The capital of France is", max_tokens=2)
    mapped, name = {}, ""
    for line in open("/proc/self/smaps"):
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            name = line.split(maxsplit=5)[5].strip() if len(line.split()) > 5 else ""
        elif line.startswith("Rss:"):
            mapped[name] = mapped.get(name, 0) + (int(line.split()[1]) << 10)
    peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
    print(json.dumps({"peak": int(peak[1]) << 10, "mapped": mapped}))
"""


def test_weights_are_held_once(smollm2_path: Path, tmp_path: Path) -> None:
    """At the first start, which packs them, and at the second, which maps what the first kept."""
    size = smollm2_path.stat().st_size
    for start in ("first", "second"):
        found = json.loads(outcome(tmp_path, HELD, smollm2_path))
        assert found["peak"] < size + (150 << 20), start
        own = found["mapped"].get(str(smollm2_path.resolve()), 0)
        assert own < size / 4, "the file's own pages are given back where packed ones serve"
