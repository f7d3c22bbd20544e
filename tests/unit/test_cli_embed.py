"""`pyrite embed`: lines in, lines or an array out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PYRITE = [sys.executable, "-c", "from pyrite.cli.main import entry; entry()"]


@pytest.fixture(scope="module")
def tiny(golden: Path) -> str:
    return str(golden / "gguf_models" / "qwen2_q8_0.gguf")


def embed(*arguments: str, piped: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*PYRITE, "embed", *arguments], input=piped, capture_output=True, timeout=60
    )


def test_json_lines_and_array_hold_the_same_vectors(tiny: str):
    given = embed(tiny, "one", "two\u2028three")
    piped = embed(tiny, piped="one\ntwo\u2028three\n".encode())
    array = embed(tiny, "-o", "npy", "one", "two\u2028three")
    assert (given.returncode, given.stderr) == (0, b"")
    assert given.stdout == piped.stdout
    lines = [json.loads(line) for line in given.stdout.splitlines()]
    assert [line["index"] for line in lines] == [0, 1]
    vectors = np.array([line["embedding"] for line in lines], np.float32)
    np.testing.assert_array_equal(vectors, np.load(io.BytesIO(array.stdout)))


def test_a_vector_a_token(tiny: str):
    done = embed(tiny, "one two three", "--pooling", "none", "--dimensions", "4", "--no-normalize")
    assert np.array(json.loads(done.stdout)["embedding"]).shape[1] == 4


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--pooling", "max", "a"], b"pooling = 'max'"),
        (["--dimensions", "0", "a"], b"dimensions = 0"),
        (["-o", "npy", "--pooling", "none", "a"], b"--output"),
        ([], b"TEXT"),
    ],
)
def test_a_fault_is_one_line(tiny: str, arguments: list[str], text: bytes):
    done = embed(tiny, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert text in done.stderr
    assert done.stderr.count(b"\n") == 1
