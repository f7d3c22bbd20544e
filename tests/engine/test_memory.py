"""What a loaded model holds in memory, and what is said where there is too little of it.

Each case runs in a process of its own; bounds are generous.
"""

from __future__ import annotations

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
