"""Where quantize, convert and imatrix may write: nothing is lost, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pyrite.cli.main import main
from pyrite.errors import CapacityError, ParameterError
from pyrite.formats.gguf_partial import PartialGguf
from pyrite.formats.gguf_writer import TensorSpec


@pytest.fixture
def source(golden: Path, tmp_path: Path) -> Path:
    """A model in a folder of its own, so that links to it can be made."""
    path = tmp_path / "models" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes((golden / "gguf_models" / "llama_q8_0.gguf").read_bytes())
    return path


def a_folder(out: Path, source: Path) -> None:
    out.mkdir()


def a_file(out: Path, source: Path) -> None:
    out.write_text("mine")


def a_link_to_nothing(out: Path, source: Path) -> None:
    out.symlink_to("gone.gguf")


def a_link_to_the_model(out: Path, source: Path) -> None:
    out.symlink_to(source)


def a_hard_link_to_the_model(out: Path, source: Path) -> None:
    os.link(source, out)


TAKEN: dict[str, tuple[Callable[[Path, Path], None], str, bool]] = {
    "a folder": (a_folder, "a folder of that name is there", False),
    "a file": (a_file, "--force writes over it", True),
    "a link to nothing": (a_link_to_nothing, "it is a link to gone.gguf; --force puts", True),
    "a link to the model": (a_link_to_the_model, "another file than those", False),
    "a hard link to the model": (a_hard_link_to_the_model, "another file than those", False),
}


def lines(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    warnings = shown.err.count("pyrite: warning: ")  # the model is quantized already
    assert shown.err.count("\n") == 1 + warnings
    return shown.err


@pytest.mark.parametrize("case", TAKEN)
def test_what_is_there_stays(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    make, said, can_be_forced = TAKEN[case]
    out = tmp_path / "out.gguf"
    make(out, source)
    model, before = source.read_bytes(), sorted(tmp_path.rglob("*"))
    arguments = ["quantize", str(source), str(out), "--type", "q5_0", "-t", "1"]
    assert main(arguments) == 2
    assert said in lines(capsys)
    assert sorted(tmp_path.rglob("*")) == before
    code = main([*arguments, "--force"])
    assert (code == 0) == can_be_forced
    assert source.read_bytes() == model
    if can_be_forced:
        assert out.is_file()
        assert not out.is_symlink()
        assert sorted(tmp_path.rglob("*")) == sorted({*before, out})


def test_the_file_of_importance_is_not_written_over(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known.gguf"
    known.write_bytes(b"importance")
    arguments = ["quantize", str(source), str(known), "--imatrix", str(known), "--force"]
    assert main(arguments) == 2
    assert "another file than those that it is made of" in lines(capsys)
    assert known.read_bytes() == b"importance"


@pytest.mark.parametrize("kind", ["file", "weights", "config"])
def test_a_measured_model_is_not_written_over(
    golden: Path, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    model = out = source
    if kind != "file":
        model = tmp_path / "folder"
        shutil.copytree(golden / "tiny" / "llama", model)
        out = model / ("model.safetensors" if kind == "weights" else "config.json")
    before = out.read_bytes()
    (tmp_path / "text").write_text("words")
    arguments = ["imatrix", str(model), str(tmp_path / "text"), "-o", str(out), "--force"]
    assert main(arguments) == 2
    assert "another file than those that it is made of" in lines(capsys)
    assert out.read_bytes() == before


def test_an_adapters_base_is_not_written_over(
    golden: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = source.read_bytes()
    adapter = str(golden / "adapters" / "plain")
    assert main(["convert", adapter, str(source), "--base", str(source), "--force"]) == 2
    assert "another file than those that it is made of" in lines(capsys)
    assert source.read_bytes() == before


@pytest.mark.parametrize("verb", ["quantize", "convert", "imatrix"])
@pytest.mark.parametrize(
    ("place", "said"), [("no/out.gguf", "a folder that is there"), ("locked/out.gguf", "written")]
)
def test_every_verb_looks_first(
    golden: Path,
    source: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    place: str,
    said: str,
) -> None:
    (tmp_path / "locked").mkdir()
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "locked" and access(path, mode)
    )
    model = golden / "tiny" / "llama" if verb == "convert" else source
    out = ["TEXT", "-o", str(tmp_path / place)] if verb == "imatrix" else [str(tmp_path / place)]
    before = sorted(tmp_path.rglob("*"))
    assert main([verb, str(model), *out]) == 2
    assert said in lines(capsys)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_system_that_is_read_only(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    def refuse(path: object, *_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr("pyrite.formats.gguf_partial.os.open", refuse)
    assert main(["quantize", str(source), str(tmp_path / "out.gguf")]) == 1
    assert "out.gguf.partial: Read-only file system" in lines(capsys)


def test_a_limit_on_the_size_of_files_leaves_nothing(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the system itself: it is as a disk that takes no file so large."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        code = main(["quantize", str(source), str(tmp_path / "out.gguf"), "--type", "q5_0"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == CapacityError.exit_code
    assert "out.gguf needs 1 MiB of disk" in lines(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["models"]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "out.gguf.partial").symlink_to(victim)
    with pytest.raises(OSError, match=r"out\.gguf\.partial"):
        PartialGguf(tmp_path / "out.gguf", {}, [], "one").__enter__()
    assert victim.read_text() == "mine"


def test_another_writers_half_file_is_left_to_it(tmp_path: Path) -> None:
    out, specs = tmp_path / "out.gguf", [TensorSpec("a", "F32", (4,))]
    with PartialGguf(out, {}, specs, "one") as first:
        with pytest.raises(ParameterError, match="no other"):
            PartialGguf(out, {}, specs, "two").__enter__()
        assert first.partial.exists()
        assert first.journal.path.exists()
