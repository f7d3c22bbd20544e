"""Adapters and files of importance with fields changed: what can be used, or a typed error."""

from __future__ import annotations

import copy
import json
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.test_fuzz_gguf import changed as changed_fields

from build_gguf import golden_fields, join
from peft_folders import MODULES, write_peft
from pyrite.backends.cpu import CpuBackend
from pyrite.errors import PyriteError
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.formats.gguf_writer import TensorSpec, write_gguf
from pyrite.formats.imatrix import Importance, Sums, read_importance, write_importance
from pyrite.models.adapters import read_adapter, with_adapters
from pyrite.models.registry import as_model, build_plan
from steps import Part, make_batch, num_pages

EXAMPLES = 250
IDS = [3, 5, 7, 5, 11]
VALUES = (None, True, -1, 0, 1, 3, 4, 8, 2**31, 2**64, 0.5, 1e300, "", "x", "LORA", [], {}, [1])


def runs(base: Checkpoint, path: Path) -> bool:
    """Whether a step of a sequence with the adapter ran; every error must be one of ours."""
    try:
        adapter = read_adapter("a", path, base)
        model = with_adapters(as_model(base), [adapter])
        runner = CpuBackend().prepare(
            build_plan(model),
            model.tensors,
            num_pages=num_pages(32),
            max_tokens=32,
            num_threads=1,
            precision="default",
        )
        batch = make_batch([Part(IDS, range(1), 0, [len(IDS) - 1])])
        runner.run(replace(batch, adapters=np.zeros(1, np.int32)))
    except PyriteError:
        return False
    return True


@st.composite
def changed(draw, document: dict) -> dict:
    """Up to two values anywhere in it replaced, or taken out."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(0, 2))):
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.integers(0, 4)):
                place = place[key]
                continue
            if draw(st.integers(0, 3)):
                place[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
            else:
                del place[key]
            break
    return document


def test_changed_peft_folders(golden: Path, tmp_path: Path) -> None:
    """The configuration, or the header of the matrices, whose bytes stay."""
    base = open_checkpoint(golden / "tiny" / "llama")
    write_peft(
        tmp_path / "a",
        base,
        MODULES,
        1,
        target_modules=["q_proj", "v_proj", "down_proj", "gate_proj"],
        alpha_pattern={"x": 2},
    )
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    content = (tmp_path / "a" / "adapter_model.safetensors").read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    counts = {True: 0, False: 0}

    @settings(max_examples=EXAMPLES)
    @given(
        config=changed(config), header=changed(header), whole=st.sampled_from([True] * 6 + [False])
    )
    def one_folder(config: dict, header: dict, whole: bool) -> None:
        text = json.dumps(header).encode()
        data = content[start:] if whole else content[start:-3]
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            (tmp_path / "a" / name).unlink(missing_ok=True)  # an older map keeps its own
        file = struct.pack("<Q", len(text)) + text + data
        (tmp_path / "a" / "adapter_model.safetensors").write_bytes(file)
        (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(config))
        counts[runs(base, tmp_path / "a")] += 1

    one_folder()
    assert min(counts.values()) >= 5, counts


def gguf_adapter(path: Path, base: Checkpoint) -> None:
    random = np.random.default_rng(5)
    specs, values = [], {}
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight"):
        rows, columns = base.tensors[name].shape
        for side, shape in (("a", (4, columns)), ("b", (rows, 4))):
            spec = TensorSpec(f"{name}.lora_{side}", "F32", shape)
            specs.append(spec)
            values[spec.name] = random.standard_normal(shape).astype(np.float32)
    metadata = {
        "general.architecture": "llama",
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": np.float32(8),
    }
    write_gguf(path, metadata, specs, lambda spec: values[spec.name].view(np.uint8).reshape(-1))


def importance(path: Path) -> None:
    entries = {
        "blk.0.attn_q.weight": Sums(np.ones((1, 64), np.float32), np.full(1, 2, np.float32)),
        "blk.0.ffn_up_exps.weight": Sums(np.ones((3, 64), np.float32), np.ones(3, np.float32)),
    }
    write_importance(Importance(path, ("a.txt",), 7, 512, entries))


def usable(path: Path) -> bool:
    try:
        found = read_importance(path)
    except PyriteError:
        return False
    for sums in found.entries.values():
        assert np.isfinite(sums.means()).all()
        assert (sums.means() >= 0).all()
    return True


@pytest.mark.parametrize("kind", ["adapter", "importance"])
def test_changed_gguf_files(golden: Path, tmp_path: Path, kind: str) -> None:
    base = open_checkpoint(golden / "gguf_models" / "llama_q8_0.gguf")
    path = tmp_path / "a.gguf"
    if kind == "adapter":
        gguf_adapter(path, base)
    else:
        importance(path)
    judge = partial(runs, base) if kind == "adapter" else usable
    assert judge(path)
    header, data = golden_fields(path)
    counts = {True: 0, False: 0}

    @settings(max_examples=EXAMPLES)
    @given(
        fields=st.one_of(st.just(header[:-1]), *[changed_fields(header[:-1])] * 3),
        number=st.sampled_from([None, None, b"\xff", b"\x7f\x80"]),
    )
    def one_file(fields: list, number: bytes | None) -> None:
        content = join(fields)
        own = data if number is None else number + data[len(number) :]
        path.unlink(missing_ok=True)  # an older map keeps its own
        path.write_bytes(content + bytes(-len(content) % 32) + own)
        counts[judge(path)] += 1

    one_file()
    assert min(counts.values()) >= 5, counts


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_changed_binary_importance(tmp_path_factory, data: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "binary.dat"
    name = b"blk.0.attn_q.weight"
    entry = struct.pack("<i", len(name)) + name + struct.pack("<ii", 3, 4) + bytes(16)
    whole = bytearray(struct.pack("<i", 1) + entry + struct.pack("<ii", 9, 5) + b"a.txt")
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    path.unlink(missing_ok=True)
    path.write_bytes(
        whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole
    )
    usable(path)
