"""Pages on disk: what was put is found by another process, and what is damaged never is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.patience import until

from pyrite.kv import store as module
from pyrite.kv.store import HEADER, Name, PageStore

LIMIT = 1 << 20
PAGE_BYTES = 300


def name_of(number: int, depth: int = 0) -> Name:
    return Name(number.to_bytes(32, "big"), tuple(range(number, number + 32)), depth)


def page_of(number: int, size: int = PAGE_BYTES) -> memoryview:
    return np.random.default_rng(number).integers(0, 256, size, np.uint8).data


def put(store: PageStore, number: int, depth: int = 0) -> Name:
    name = name_of(number, depth)
    store.put(name, page_of(number))
    return name


def found(store: PageStore, number: int) -> bytes | None:
    page = store.get(name_of(number), PAGE_BYTES)
    return None if page is None else bytes(page)


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    return PageStore(tmp_path / "kv", LIMIT)


def file_of(store: PageStore, number: int) -> Path:
    return store.folder / (name_of(number).key.hex() + ".page")


def test_what_was_put_is_found_by_another(store: PageStore):
    assert not store.has(name_of(1).key)
    assert found(store, 1) is None
    put(store, 1)
    other = PageStore(store.folder, LIMIT)
    assert other.has(name_of(1).key)
    assert found(other, 1) == bytes(page_of(1))
    assert found(other, 2) is None


def test_a_page_of_other_tokens_or_size_is_a_miss(store: PageStore):
    name = put(store, 1)
    for tokens in (name.token_ids[:-1], (*name.token_ids, 1), (9, *name.token_ids[1:])):
        assert store.get(Name(name.key, tokens, 0), PAGE_BYTES) is None
        put(store, 1)
    for size in (0, PAGE_BYTES - 1, PAGE_BYTES + 1, PAGE_BYTES + 4):
        assert store.get(name, size) is None
        put(store, 1)
    assert found(store, 1) is not None


def test_a_file_under_another_name_is_a_miss(store: PageStore):
    put(store, 1)
    os.rename(file_of(store, 1), file_of(store, 2))
    assert store.get(Name(name_of(2).key, name_of(1).token_ids, 0), PAGE_BYTES) is None


def test_any_changed_byte_is_a_miss_and_the_file_goes(store: PageStore):
    put(store, 1)
    path = file_of(store, 1)
    whole = path.read_bytes()
    assert len(whole) == HEADER.size + 4 * 32 + PAGE_BYTES
    for position in range(len(whole)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[position] ^= change
            path.write_bytes(damaged)
            assert found(store, 1) is None, (position, change)
            assert not path.exists()
    path.write_bytes(whole)
    assert found(store, 1) == bytes(page_of(1))


def test_any_length_but_its_own_is_a_miss(store: PageStore):
    put(store, 1)
    path = file_of(store, 1)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 7), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert found(store, 1) is None
    for longer in (whole + b"\0", whole + whole):
        path.write_bytes(longer)
        assert found(store, 1) is None


def test_parts_of_two_pages_are_a_miss(store: PageStore):
    """As after a power cut, with sectors of what was there before."""
    put(store, 1)
    put(store, 2)
    first, second = (file_of(store, number).read_bytes() for number in (1, 2))
    for cut in range(16, len(first), 32):
        file_of(store, 1).write_bytes(first[:cut] + second[cut:])
        assert found(store, 1) is None
    file_of(store, 1).write_bytes(first[:200] + bytes(len(first) - 200))
    assert found(store, 1) is None


def test_it_is_its_owners_alone(store: PageStore):
    store.folder.mkdir(mode=0o755)
    os.chmod(store.folder, 0o755)
    put(store, 1)
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert file_of(store, 1).stat().st_mode & 0o777 == 0o600


def test_a_folder_of_another_user_is_refused(store: PageStore, monkeypatch):
    monkeypatch.setattr(module.os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError):
        put(store, 1)


def test_a_page_of_another_user_is_a_miss(store: PageStore, monkeypatch):
    put(store, 1)
    monkeypatch.setattr(module.os, "geteuid", lambda: 12345)
    assert found(store, 1) is None


def test_a_folder_that_was_removed_is_made_again(store: PageStore):
    put(store, 1)
    file_of(store, 1).unlink()
    store.folder.rmdir()
    assert found(store, 1) is None
    put(store, 2)
    assert found(store, 2) is not None


def test_a_link_is_not_followed(store: PageStore, tmp_path: Path):
    put(store, 1)
    target = tmp_path / "elsewhere"
    os.rename(file_of(store, 1), target)
    file_of(store, 1).symlink_to(target)
    assert found(store, 1) is None


@pytest.mark.timeout(10)
def test_what_is_no_file_is_not_waited_for(store: PageStore):
    put(store, 1)
    file_of(store, 1).unlink()
    os.mkfifo(file_of(store, 1))
    assert found(store, 1) is None


def total(store: PageStore) -> int:
    return sum(path.stat().st_size for path in store.folder.iterdir())


def test_the_limit_holds_after_every_page(tmp_path: Path):
    size = HEADER.size + 4 * 32 + PAGE_BYTES
    store = PageStore(tmp_path / "kv", 40 * size)
    for number in range(200):
        put(store, number)
        assert total(store) <= store.limit_bytes
    assert total(store) >= 30 * size
    assert found(store, 199) is not None
    assert found(store, 0) is None


def test_what_was_used_last_goes_last(tmp_path: Path, monkeypatch):
    size = HEADER.size + 4 * 32 + PAGE_BYTES
    monkeypatch.setattr(module, "USED_SECONDS", -1)
    store = PageStore(tmp_path / "kv", 16 * size)
    for number in range(16):
        put(store, number)
        os.utime(file_of(store, number), (number, number))
    assert found(store, 3) is not None  # used now
    store.trim(8 * size)
    kept = [number for number in range(16) if store.has(name_of(number).key)]
    assert kept == [3, *range(9, 16)]


def test_of_one_prompt_the_end_goes_first(store: PageStore):
    """What comes after a page is of no use without it."""
    for number in range(8):
        put(store, number, depth=number)
    store.trim(LIMIT - 3 * file_of(store, 0).stat().st_size)
    assert [number for number in range(8) if store.has(name_of(number).key)] == [0, 1, 2]


def test_number_of_files_is_limited(store: PageStore, monkeypatch):
    monkeypatch.setattr(module, "MOST_FILES", 10)
    for number in range(25):
        put(store, number)
    store.trim()
    assert len(list(store.folder.iterdir())) == 10


def test_what_a_killed_writer_left_goes(store: PageStore):
    put(store, 1)
    old, new = store.folder / "a.partial", store.folder / "b.partial"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (time.time() - 3600,) * 2)
    store.trim()
    assert not old.exists()
    assert new.exists()


def test_a_page_larger_than_everything_is_refused(tmp_path: Path):
    store = PageStore(tmp_path / "kv", PAGE_BYTES)
    with pytest.raises(OSError, match="may take"):
        put(store, 1)
    assert list(store.folder.iterdir()) == []


def test_a_nearly_full_disk_is_left_to_others(store: PageStore, monkeypatch):
    usage = SimpleNamespace(free=module.LEAST_FREE_BYTES)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="No space left"):
        put(store, 1)
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_write_that_fails_leaves_nothing(store: PageStore, monkeypatch, number: int):
    def fail(*given):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.os, "replace", fail)
    with pytest.raises(OSError, match=os.strerror(number)):
        put(store, 1)
    assert list(store.folder.iterdir()) == []


def test_a_page_that_cannot_be_read_is_a_miss(store: PageStore, monkeypatch):
    put(store, 1)

    def fail(*given):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(module.os, "open", fail)
    assert found(store, 1) is None


def test_a_mapped_page_outlives_its_file(store: PageStore):
    put(store, 1)
    page = store.get(name_of(1), PAGE_BYTES)
    file_of(store, 1).unlink()
    assert page == page_of(1)
    with pytest.raises(TypeError):
        page[0] = 1


def test_threads_and_two_stores_share_a_folder(tmp_path: Path):
    """Readers see whole pages or none, while both write the same names and remove old ones."""
    size = HEADER.size + 4 * 32 + PAGE_BYTES
    stores = [PageStore(tmp_path / "kv", 12 * size) for _ in range(2)]
    wrong: list[object] = []

    def work(store: PageStore, seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for number in random.integers(0, 24, 150).tolist():
                if random.random() < 0.5:
                    put(store, number)
                elif found(store, number) not in (None, bytes(page_of(number))):
                    wrong.append(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(stores[i % 2], i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert total(stores[0]) <= 13 * size + 12 * size // 16 + 2 * size


def test_a_process_that_is_killed_while_it_writes_leaves_whole_pages(tmp_path: Path):
    program = """
import sys, numpy as np
from pathlib import Path
from pyrite.kv.store import Name, PageStore
store = PageStore(Path(sys.argv[1]), 1 << 30)
print("begun", flush=True)
for number in range(10**6):
    page = np.random.default_rng(number).integers(0, 256, 200_000, np.uint8)
    store.put(Name(number.to_bytes(32, "big"), tuple(range(number, number + 32)), 0), page.data)
"""
    folder = tmp_path / "kv"
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    until(lambda: len(list(folder.glob("*.page"))) > 3)
    process.kill()
    process.wait()
    process.stdout.close()
    store = PageStore(folder, 1 << 30)
    names = sorted(path for path in folder.iterdir() if path.suffix == ".page")
    assert names
    for path in names:
        number = int.from_bytes(bytes.fromhex(path.stem), "big")
        page = store.get(name_of(number), 200_000)
        assert page == page_of(number, 200_000)
