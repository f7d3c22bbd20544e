"""Models that are quantized as they are loaded: made once, found again, made anew when need be."""

from __future__ import annotations

import os
import shutil
import threading
import time

import pytest

import pyrite
from pyrite import quantized
from pyrite.cli.main import main
from pyrite.config import Settings
from pyrite.errors import ParameterError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.llm import Model
from pyrite.loading import load_engine
from pyrite.quantized import quantized_file


@pytest.fixture
def folder(golden, tmp_path):
    """A copy: its times of writing may be changed."""
    return shutil.copytree(golden / "tiny" / "llama", tmp_path / "llama")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def load(path, cache, **settings):
    return Model(load_engine(path, Settings(context=64, cache=cache, **settings)))


def types(path):
    return {tensor.type for tensor in open_checkpoint(path).tensors.values()}


def test_a_folder_is_quantized_once_and_answers_alike(folder, cache, monkeypatch):
    with load(folder, cache, quant="q8_0") as model:
        first = model.generate([5, 6, 7], max_tokens=8, temperature=0.0)
    (file,) = (cache / "quantized").glob("*.gguf")
    assert "Q8_0" in types(file)
    monkeypatch.setattr(quantized, "convert", None)  # not called again
    with load(folder, cache, quant="Q8_0") as model:
        assert model.generate([5, 6, 7], max_tokens=8, temperature=0.0).token_ids == first.token_ids
        assert {tensor.type for tensor in model.loaded.checkpoint.tensors.values()} == types(file)


@pytest.mark.parametrize("change", ["weights", "config", "recipe"])
def test_what_has_changed_is_made_anew(folder, cache, change):
    recipe = "q8_0"
    before = quantized_file(folder, recipe, cache)
    if change == "weights":
        os.utime(folder / "model.safetensors", ns=(1, 1))
    if change == "config":
        os.utime(folder / "config.json", ns=(1, 1))
    if change == "recipe":
        recipe = "q4_0"
    assert quantized_file(folder, recipe, cache) != before


def test_what_holds_no_floats_is_loaded_as_it_is(golden, cache):
    path = golden / "gguf_models" / "llama_q8_0.gguf"
    assert quantized_file(path, "q4_k_m", cache) == path
    assert not cache.exists()


def test_a_progress_hears_of_bytes(folder, cache):
    heard = []
    file = quantized_file(folder, "q8_0", cache, progress=lambda *told: heard.append(told))
    assert heard[-1][0] == heard[-1][1]
    assert 0 < file.stat().st_size - heard[-1][1] < 64 << 10  # the rest is the header


def test_two_at_once_do_the_work_once(folder, cache, monkeypatch):
    calls, convert = [], quantized.convert

    def slow(*arguments):
        calls.append(arguments)
        time.sleep(0.2)
        return convert(*arguments)

    monkeypatch.setattr(quantized, "convert", slow)
    threads = [
        threading.Thread(target=quantized_file, args=(folder, "q8_0", cache)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_files_that_nobody_used_for_long_go(folder, cache):
    old = quantized_file(folder, "q8_0", cache)
    used = quantized_file(folder, "q5_0", cache)
    for file in (old, used):
        os.utime(file, (time.time() - 40 * 86400, time.time()))
    assert quantized_file(folder, "q5_0", cache) == used  # which marks it
    fresh = quantized_file(folder, "q4_0", cache)
    assert {file.name for file in (cache / "quantized").glob("*.gguf")} == {used.name, fresh.name}


def test_a_name_that_is_no_recipe(folder, cache):
    with pytest.raises(ParameterError, match=r"quant = 'q4': must be one of"):
        pyrite.load(folder, quant="q4")
    with pytest.raises(ParameterError, match="the name of a recipe"):
        Settings(quant=4)  # type: ignore[arg-type]


def test_the_command_line_passes_it_on(folder, cache, monkeypatch, capsys):
    monkeypatch.setenv("PYRITE_HOME", str(cache))
    arguments = ["--quant", "q8_0", "-p", "4", "-n", "2", "-r", "1", "-o", "json"]
    assert main(["bench", str(folder), *arguments]) == 0
    assert list((cache / "quantized").glob("*.gguf"))
    assert '"pp4"' in capsys.readouterr().out
