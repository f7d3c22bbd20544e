"""What goes wrong around a model, as the command line says it: one line, one exit code.

Each fault has its exception beside it; the files and servers are those that unit tests use.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pyrite
from build_gguf import put, write
from loopback import Site
from package_site import MODEL
from pyrite.backends.cpu import CpuBackend
from pyrite.cli import main as cli
from pyrite.errors import (
    CapacityError,
    FetchError,
    FormatError,
    PyriteError,
    TensorError,
    UnsupportedError,
)
from pyrite.formats import fetch

Write = Callable[[Path], Path]


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a verb that must fail, with nothing prepared; gives its exit code and its one line."""

    def prepare(*_: object, **__: object) -> None:
        raise AssertionError("it was to be refused before anything large is read")

    monkeypatch.setattr(CpuBackend, "prepare", prepare)
    monkeypatch.setattr("pyrite.cli.run.whole_prompt", lambda given, terminal: given)

    def run(*arguments: str) -> tuple[int, str]:
        code = cli.main(arguments)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("pyrite: error: ")
        assert shown.err.count("\n") == 1
        return code, shown.err

    return run


def edited(golden: Path, *changes: tuple[bytes, bytes]) -> Write:
    """The tiny Qwen 2, with bytes replaced by others of the same number."""

    def write_file(path: Path) -> Path:
        data = (golden / "gguf_models" / "qwen2_q8_0.gguf").read_bytes()
        for old, new in changes:
            assert len(old) == len(new)
            assert old in data
            data = data.replace(old, new)
        path.write_bytes(data)
        return path

    return write_file


FILES: dict[str, tuple[Any, type[PyriteError], int, list[str]]] = {
    "an architecture that is not known": (
        lambda golden: edited(golden, (b"qwen2", b"qwen9")),
        UnsupportedError,
        3,
        ["qwen9", "qwen2"],
    ),
    "a type of tensor that does not exist": (
        lambda golden: lambda path: write(path, edit=put("first", "type", 99)),
        UnsupportedError,
        3,
        ["first", "99"],
    ),
    "a tensor of another name": (
        lambda golden: edited(golden, (b"blk.1.ffn_up.weight", b"blk.1.ffn_oh.weight")),
        TensorError,
        3,
        ["blk.1.ffn_up.weight", "blk.1.ffn_oh.weight"],
    ),
    "a length that lies": (
        lambda golden: lambda path: write(path, edit=put("number of tensors", "count", 2**60)),
        FormatError,
        3,
        [str(2**60)],
    ),
    "a file of another format": (
        lambda golden: lambda path: path.write_bytes(b"PK\3\4" + bytes(100)) and path,
        FormatError,
        3,
        ["ZIP"],
    ),
}


@pytest.mark.parametrize("verb", ["run", "bench"])
@pytest.mark.parametrize("fault", FILES)
def test_files(refuse: Any, golden: Path, tmp_path: Path, verb: str, fault: str) -> None:
    make, kind, code, words = FILES[fault]
    path = make(golden)(tmp_path / "m.gguf")
    found, line = refuse(verb, str(path), *(["hi"] if verb == "run" else []))
    assert found == code
    assert all(word in line for word in words)
    with pytest.raises(kind) as caught:
        pyrite.load(path)
    assert f"pyrite: error: {caught.value}\n" == line


def test_a_model_that_does_not_fit(
    refuse: Any, golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.room.available_bytes", lambda **_: 1 << 20)
    path = golden / "gguf_models" / "qwen2_q8_0.gguf"
    code, line = refuse("run", str(path), "hi")
    assert code == 6
    assert "needs" in line
    assert "1 MiB are available" in line
    with pytest.raises(CapacityError, match="1 MiB are available"):
        pyrite.load(path)


@pytest.mark.parametrize("verb", ["pull", "run"])
def test_a_download_that_breaks_off(refuse: Any, index: Site, home: Path, verb: str) -> None:
    """Nothing stands under the model's name, and the next call goes on."""
    index.cuts = [10**9] + [1000] * fetch.ATTEMPTS
    code, line = refuse(verb, "two", *(["hi"] if verb == "run" else []))
    assert code == FetchError.exit_code
    assert "bytes are here" in line
    assert not (home / "two.gguf").exists()
    assert cli.main(["pull", "two"]) == 0
    assert (home / "two.gguf").read_bytes() == MODEL


def test_no_room_for_a_download(
    refuse: Any, index: Site, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    code, line = refuse("pull", "two")
    assert code == CapacityError.exit_code
    assert "two.gguf" in line
    assert not (home / "two.gguf").exists()


def test_a_disk_that_fills_up_while_fetching(refuse: Any, index: Site, home: Path) -> None:
    wheels = home / ".wheels"
    wheels.mkdir(parents=True)
    name = next(name for name in index.pages if "part0" in name and name.endswith(".whl"))
    fetch.partial_path(wheels / Path(name).name).symlink_to("/dev/full")
    code, line = refuse("pull", "two")
    assert code == CapacityError.exit_code
    assert "the disk is full" in line
    assert not (home / "two.gguf").exists()
