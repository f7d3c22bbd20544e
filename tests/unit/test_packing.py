"""Packed weights: kept, mapped again, checked, made anew, done without when there is no room."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from pyrite.backends import huge_pages, packed_file, packing
from pyrite.backends.packing import (
    clean,
    contents_of,
    drop_pages,
    fingerprint,
    packed_bytes,
    packed_weights,
)
from pyrite.errors import BackendError
from pyrite.formats.checkpoint import Tensor
from pyrite.formats.gguf import read_gguf
from pyrite.formats.mapping import map_file
from pyrite.models.registry import open_model


@pytest.fixture
def tensors(golden: Path) -> list[Tensor]:
    """Matrices of a small real file: Q4_K and Q6_K."""
    found = open_model(golden / "gguf_models" / "llama_q4_k_m.gguf").tensors.values()
    return [tensor for tensor in found if len(tensor.shape) == 2]


def bytes_of(matrices) -> dict[str, bytes]:
    return {name: matrix.data.tobytes() for name, matrix in matrices.items()}


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "packed").iterdir())


def forbid_packing(monkeypatch) -> None:
    def refuse(*_):
        raise AssertionError("weights were packed again")

    monkeypatch.setattr(packing, "_slabs", refuse)


def test_second_start_maps_what_the_first_one_kept(tensors, tmp_path, monkeypatch):
    first = bytes_of(packed_weights(tensors, tmp_path, 2))
    assert [path.suffix for path in entries(tmp_path)] == [".bin"]
    forbid_packing(monkeypatch)
    second = packed_weights(tensors, tmp_path, 1)
    assert bytes_of(second) == first
    assert not any(matrix.data.flags.writeable for matrix in second.values())


@pytest.mark.parametrize("keeps", [True, False])
def test_who_waits_for_packing_hears_of_it(tensors, tmp_path, keeps):
    told: list[tuple[int, int]] = []
    cache = tmp_path if keeps else None
    packed_weights(tensors, cache, 2, progress=lambda *one: told.append(one))
    total = packed_bytes(tensors)
    assert {of for _, of in told} == {total}
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1] == (total, total)
    told.clear()
    packed_weights(tensors, cache, 2, progress=lambda *one: told.append(one))
    assert bool(told) != keeps, "what was kept is not packed"


def test_kept_and_in_memory_are_the_same_and_aligned(tensors, tmp_path):
    kept, held = packed_weights(tensors, tmp_path, 1), packed_weights(tensors, None, 3)
    assert bytes_of(kept) == bytes_of(held)
    for matrix in (*kept.values(), *held.values()):
        assert matrix.data.ctypes.data % 64 == 0


def test_small_slabs_give_the_same_bytes(tensors, monkeypatch):
    whole = bytes_of(packed_weights(tensors, None, 2))
    monkeypatch.setattr(packing, "SLAB_BYTES", 10_000)
    assert bytes_of(packed_weights(tensors, None, 2)) == whole


@pytest.mark.parametrize("slab_bytes", [10_000, 4 << 20])
@pytest.mark.parametrize("rows", [1, 16, 20, 40])
def test_stacks_are_packed_matrix_by_matrix(tensors, tmp_path, monkeypatch, rows, slab_bytes):
    """Each in panels of its own, also where its rows are no multiple of 16."""
    monkeypatch.setattr(packing, "SLAB_BYTES", slab_bytes)
    whole = next(tensor for tensor in tensors if tensor.num_rows >= 120)
    cut = whole.read(0, 3 * rows)
    stack = Tensor("stack", whole.type, (3, rows, whole.shape[1]), cut)
    parts = [
        Tensor(str(i), whole.type, stack.shape[1:], stack.read(i * rows, rows)) for i in range(3)
    ]
    for keeps in (tmp_path, tmp_path, None):  # kept, mapped again, and in memory
        packed = packed_weights([stack, *parts, whole], keeps, 2)
        assert (packed["stack"].count, packed["stack"].rows) == (3, rows)
        found = bytes_of(packed)
        assert found["stack"] == b"".join(found[str(i)] for i in range(3))
    assert packed_bytes([stack]) == len(found["stack"])


def test_fingerprint_follows_content_not_place(tensors, tmp_path, golden):
    source = golden / "gguf_models" / "llama_q4_k_m.gguf"
    copy = tmp_path / "renamed.gguf"
    copy.write_bytes(source.read_bytes())
    moved = open_model(copy).tensors
    assert fingerprint([moved[tensor.name] for tensor in tensors]) == fingerprint(tensors)
    assert fingerprint(tensors[1:]) != fingerprint(tensors)
    changed = tensors[0].data.copy()
    changed[-1] ^= 1
    other = Tensor(tensors[0].name, tensors[0].type, tensors[0].shape, changed)
    assert fingerprint([other, *tensors[1:]]) != fingerprint(tensors)


def damage_head(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(60)
        file.write(b"\xff")


def damage_size(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def damage_data(path: Path) -> None:
    """The first panel of the first matrix, as a layout that changed would."""
    data = bytearray(path.read_bytes())
    data[packed_file.DATA_ALIGNMENT] ^= 1
    path.write_bytes(data)


def damage_last_matrix(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1000] ^= 64
    path.write_bytes(data)


def lose_a_page(path: Path) -> None:
    """As a disk that loses pages: one in the middle comes back as zeros."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = bytes(4096)
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def put_a_pipe(path: Path) -> None:
    """Nobody writes to it, so whoever opens it waits."""
    path.unlink()
    os.mkfifo(path)


DAMAGES = [
    damage_head,
    damage_size,
    damage_data,
    damage_last_matrix,
    lose_a_page,
    empty,
    put_a_pipe,
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entry_is_made_anew(tensors, tmp_path, damage, caplog):
    expected = bytes_of(packed_weights(tensors, tmp_path, 2))
    damage(entries(tmp_path)[0])
    with caplog.at_level(logging.WARNING):
        assert bytes_of(packed_weights(tensors, tmp_path, 2)) == expected
    assert "made anew" in caplog.text
    caplog.clear()
    packed_weights(tensors, tmp_path, 2)
    assert caplog.text == ""


def test_weights_are_summed_once_until_something_writes(tensors, tmp_path, monkeypatch):
    packed_weights(tensors, tmp_path, 2)
    sums, summed = packed_file.sums, []
    monkeypatch.setattr(packed_file, "sums", lambda *given: summed.append(given) or sums(*given))
    packed_weights(tensors, tmp_path, 2)
    assert summed == [], "the second start reads no more than it maps"
    entries(tmp_path)[0].touch()
    packed_weights(tensors, tmp_path, 2)
    packed_weights(tensors, tmp_path, 2)
    assert len(summed) == 1


def test_a_cache_on_a_read_only_disk_is_used(tensors, tmp_path, monkeypatch):
    first = bytes_of(packed_weights(tensors, tmp_path, 2))
    forbid_packing(monkeypatch)

    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert bytes_of(packed_weights(tensors, tmp_path, 2)) == first


def test_a_file_edited_between_the_samples_is_packed_anew(tmp_path, golden):
    path = shutil.copy(golden / "gguf_models" / "llama_q4_k_m.gguf", tmp_path / "model.gguf")

    def packed() -> dict[str, bytes]:
        found = open_model(path)
        matrices = [tensor for tensor in found.tensors.values() if len(tensor.shape) == 2]
        return bytes_of(packed_weights(matrices, tmp_path, 1, found.files))

    before = packed()
    tensor = max(read_gguf(path).tensors, key=lambda tensor: tensor.size)
    with path.open("r+b") as file:
        file.seek(tensor.start + 600)
        file.write(b"\x11" * 64)
    after = packed()
    assert [name for name in before if before[name] != after[name]] == [tensor.name]


def test_full_disk_packs_into_memory(tensors, tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with caplog.at_level(logging.WARNING):
        matrices = packed_weights(tensors, tmp_path, 2)
    assert "No space left" in caplog.text
    assert entries(tmp_path) == []
    assert bytes_of(matrices) == bytes_of(packed_weights(tensors, None, 1))


def test_interrupted_write_leaves_nothing(tensors, tmp_path, monkeypatch):
    def interrupted(handle, data):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        packed_weights(tensors, tmp_path, 2)
    assert entries(tmp_path) == []


def test_cache_that_is_a_file_packs_into_memory(tensors, tmp_path, caplog):
    (tmp_path / "packed").write_text("in the way")
    assert packed_weights(tensors, tmp_path, 1).keys() == {tensor.name for tensor in tensors}
    assert "not kept" in caplog.text


def test_old_entries_and_leftovers_are_removed(tmp_path, monkeypatch):
    ages = {"new.bin": 0, "week.bin": 7, "old.bin": 31, "a.bin.x.partial": 0, "b.bin.x.partial": 0}
    for name, days in ages.items():
        (tmp_path / name).write_bytes(b"x" * 10)
        then = time.time() - days * 86400 - 60
        os.utime(tmp_path / name, (then, then))
    with (tmp_path / "b.bin.x.partial").open("r+b") as file:  # somebody is writing it
        fcntl.flock(file, fcntl.LOCK_EX)
        clean(tmp_path, keep=tmp_path / "new.bin")
    assert {path.name for path in tmp_path.iterdir()} == {"new.bin", "week.bin", "b.bin.x.partial"}
    clean(tmp_path, keep=tmp_path / "new.bin")
    assert not (tmp_path / "b.bin.x.partial").exists(), "its writer is gone"
    monkeypatch.setattr(packing, "KEPT_BYTES", 15)
    clean(tmp_path, keep=tmp_path / "new.bin")
    assert (tmp_path / "new.bin").exists()
    assert not (tmp_path / "week.bin").exists()


def test_pages_are_dropped_from_files_only(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(bytes(range(256)) * 64)
    mapped, held = map_file(path), np.arange(16384, dtype=np.uint8)
    for data in (mapped[100:], held[100:]):
        before = data.copy()
        drop_pages([data])
        np.testing.assert_array_equal(data, before)


def test_nothing_to_pack(tmp_path):
    assert packed_weights([], tmp_path, 1) == {}
    assert contents_of([]).entries == ()


def test_a_copy_holds_the_same_bytes(tensors, tmp_path):
    mapped = packed_weights(tensors, tmp_path, 2, placement="map")
    copied = packed_weights(tensors, tmp_path, 2, placement="copy")
    assert bytes_of(copied) == bytes_of(mapped)
    for matrix in copied.values():
        assert matrix.data.ctypes.data % 64 == 0
        assert not matrix.data.flags.writeable
    entries(tmp_path)[0].unlink()
    assert bytes_of(copied) == bytes_of(mapped), "a copy does not need the file"


def test_weights_are_copied_on_request_alone(tensors, tmp_path, monkeypatch):
    copied, copies = huge_pages.copied, []
    monkeypatch.setattr(huge_pages, "copied", lambda *given: copies.append(1) or copied(*given))
    for placement, expected in (("", 0), ("map", 0), ("copy", 1)):
        copies.clear()
        packed_weights(tensors, tmp_path, 1, placement=placement)
        packed_weights(tensors, tmp_path, 1, placement=placement)
        assert len(copies) == 2 * expected


def test_a_placement_that_means_nothing_is_refused(tensors, tmp_path):
    with pytest.raises(BackendError, match="PYRITE_WEIGHTS is 'fast'"):
        packed_weights(tensors, tmp_path, 1, placement="fast")
