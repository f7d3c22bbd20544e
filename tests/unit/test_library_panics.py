"""A panic of the `tokenizers` library: one error of ours, and nothing on standard error."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import library
from pyrite.errors import FormatError
from pyrite.formats.tokenizer_json import read_tokenizer_json
from pyrite.text.library import called, panics_unheard
from pyrite.text.tokenizer import Tokenizer

BROKEN = {"type": "Precompiled", "precompiled_charsmap": "AAAA/w=="}
MESSAGE = (
    "before\n"
    "\nthread '<unnamed>' (7) panicked at src/lib.rs:1:2:\nmessage\nof two lines\n"
    "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n"
    "after\n"
)


def broken(folder):
    def change(document):
        document["normalizer"] = BROKEN

    return library.save(library.make("gpt-2"), folder, change)


def test_a_broken_part_is_one_error(tmp_path, capfd):
    data = read_tokenizer_json(broken(tmp_path)).data
    assert data.model == "library"
    with pytest.raises(FormatError, match="tokenizers library"):
        Tokenizer.from_data(data)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("backtrace", ["0", "1", "full"])
def test_the_library_panics_at_it(tmp_path, backtrace):
    """Or the test above would show nothing."""
    path = broken(tmp_path)
    code = f"import tokenizers; tokenizers.Tokenizer.from_file({str(path)!r})"
    environment = {**os.environ, "RUST_BACKTRACE": backtrace}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert b"panicked at" in run.stderr
    ours = "from pyrite.text.library import panics_unheard\nwith panics_unheard():\n  " + code
    run = subprocess.run([sys.executable, "-c", ours], env=environment, capture_output=True)
    assert b"panicked at" not in run.stderr.split(b"Traceback")[0]
    assert run.returncode != 0


def test_others_are_heard_afterwards(capfd):
    with panics_unheard():
        os.write(2, MESSAGE.encode())
        assert capfd.readouterr().err == ""
    assert capfd.readouterr().err == "before\nafter\n"


def test_one_error_leaves_standard_error_as_it_was(capfd):
    with pytest.raises(FormatError, match="tokenizers library: invalid literal"), panics_unheard():
        called(int, "no")
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_a_process_without_standard_error(tmp_path):
    code = (
        "import os; os.close(2)\n"
        "from pyrite.text.library import panics_unheard\n"
        "with panics_unheard(): print('works')"
    )
    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60)
    assert run.stdout == b"works\n"


def test_text_that_it_cannot_write_is_told_of_later(tmp_path):
    """A vocabulary of words without an unknown one: it works for those that it has."""
    document = {
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "nobody"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    tokenizer = Tokenizer.from_data(read_tokenizer_json(tmp_path / "tokenizer.json").data)
    assert tokenizer.encode("a b a").tolist() == [0, 1, 0]
    with pytest.raises(FormatError, match="tokenizers library"):
        tokenizer.encode("漢")
