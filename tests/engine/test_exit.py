"""A process that ends says nothing, whatever it has loaded and however it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import sys, threading
import pyrite
from pyrite.sampling.grammar import Grammar
model = pyrite.load(sys.argv[1])
"""
ENDS = {
    "after an answer": "model.generate('a', max_tokens=3)",
    "within a stream": "stream = model.stream('a', max_tokens=9); next(iter(stream))",
    "with a grammar": "model.generate('a', max_tokens=3, grammar=Grammar.regex('[ab]+'))",
    "in a cycle": "other = pyrite.load(sys.argv[1]); model.other, other.other = other, model",
    "with vectors": "model.embed(['a'])",
    "with an error kept": """
try:
    model.generate('a' * 100_000)
except pyrite.PyriteError as error:
    kept = error
""",
}
DAEMON = """
begun = threading.Event()
def work():
    while True:
        {work}
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait(20)
"""
DAEMONS = {
    "answers": "model.generate('a', max_tokens=100, ignore_eos=True)",
    "ids": "model.tokenize('the cat ' * 10_000)",
}


def ended(golden, code: str, *options: str) -> str:
    """What a process says on standard error."""
    model = golden / "gguf_models" / "llama_q8_0.gguf"
    command = [sys.executable, *options, "-c", BEGIN + code, str(model)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.parametrize("end", ENDS)
def test_nothing_outlives_the_interpreter(golden, end):
    """The native core tells of it in development mode."""
    assert "leaked" not in ended(golden, ENDS[end], "-X", "dev", "-W", "ignore")


@pytest.mark.parametrize("work", DAEMONS)
@pytest.mark.parametrize("run", range(3))
def test_a_daemon_thread_in_the_middle_of_its_work(golden, work, run):
    """It wants the interpreter's lock back from an interpreter that has ended."""
    assert ended(golden, DAEMON.format(work=DAEMONS[work])) == ""


def test_development_mode_tells(golden):
    """Or the tests above would show nothing."""
    kept = "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(model.tokenizer._native))"
    assert "leaked" in ended(golden, kept, "-X", "dev", "-W", "ignore")
