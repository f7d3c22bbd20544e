"""Downloads from a server on the loopback interface: cuts, wrong bytes, full disks, two at once."""

from __future__ import annotations

import hashlib
import multiprocessing
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loopback import Site, serve
from pyrite.errors import CapacityError, FetchError
from pyrite.formats import fetch as module
from pyrite.formats.fetch import Source, fetch, partial_path, require_space

DATA = np.random.default_rng(9).bytes(1_000_000)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def site(monkeypatch) -> Iterator[Site]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.001)
    with serve(Site({"/file": DATA})) as running:
        yield running


def source(site: Site, **changed) -> Source:
    fields = {"name": "file", "sha256": SHA256, "size": len(DATA)} | changed
    return Source(f"{site.url}/file", **fields)


def left_over(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir() if path.name != ".locks"}


def test_whole(site, tmp_path):
    seen: list[tuple[int, int]] = []
    target = tmp_path / "new" / "file"
    fetch(source(site), target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == DATA
    assert left_over(target) == {"file"}
    assert seen[0] == (0, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    fetch(source(site), target)
    assert len(site.requests) == 1


@pytest.mark.parametrize("size", [len(DATA), None])
def test_cut_and_resumed_within_one_call(site, tmp_path, size):
    site.cuts = [300_000, 1, 0]
    fetch(source(site, size=size), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA
    assert site.asked("/file") == [None, "bytes=300000-", "bytes=300001-", "bytes=300001-"]


def test_cut_too_often_keeps_what_came_and_goes_on_next_time(site, tmp_path):
    site.cuts = [100_000] * module.ATTEMPTS
    with pytest.raises(FetchError, match=r"ended early; 400000 bytes are here .*goes on where"):
        fetch(source(site), tmp_path / "file")
    assert left_over(tmp_path / "file") == {"file.partial"}
    fetch(source(site), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA
    assert site.asked("/file")[-1] == "bytes=400000-"


def test_server_without_ranges_starts_again(site, tmp_path):
    site.ranges, site.cuts = False, [500_000]
    fetch(source(site), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA


def test_wrong_bytes_are_removed(site, tmp_path):
    with pytest.raises(FetchError, match="checksum of what was fetched is wrong; it was removed"):
        fetch(source(site, sha256="0" * 64), tmp_path / "file")
    assert left_over(tmp_path / "file") == set()


def test_damaged_beginning_is_fetched_again(site, tmp_path):
    partial_path(tmp_path / "file").write_bytes(b"damaged" * 1000)
    fetch(source(site), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA
    assert site.asked("/file") == ["bytes=7000-", None]


def test_beginning_longer_than_the_file(site, tmp_path):
    partial_path(tmp_path / "file").write_bytes(DATA + b"more")
    fetch(source(site), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA
    partial_path(tmp_path / "two").write_bytes(DATA + b"more")
    fetch(source(site, size=None), tmp_path / "two")  # 416: nobody knew the size
    assert (tmp_path / "two").read_bytes() == DATA


def test_size_other_than_stated(site, tmp_path):
    with pytest.raises(FetchError, match="more than 999999 bytes"):
        fetch(source(site, size=999_999), tmp_path / "file")
    with pytest.raises(FetchError, match="ended early"):
        fetch(source(site, size=1_000_001), tmp_path / "two")
    assert not (tmp_path / "file").exists()
    assert not (tmp_path / "two").exists()


def test_busy_server_is_asked_again_and_a_refusal_is_not(site, tmp_path):
    site.statuses = [503, 429, 502]
    fetch(source(site), tmp_path / "file")
    site.statuses = [403]
    with pytest.raises(FetchError, match="file: the server answered 403"):
        fetch(source(site), tmp_path / "two")
    assert len(site.requests) == 5


def test_offline(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.001)
    with serve(Site()) as gone:
        pass
    with pytest.raises(FetchError, match=r"could not be fetched: .*refused.*check the network"):
        fetch(Source(f"{gone.url}/file", "file"), tmp_path / "file")


def test_secret_headers_stay_with_the_first_host(site, tmp_path):
    with serve(Site(redirects={"/file": f"{site.url}/file"})) as first:
        secret = {"Authorization": "Bearer secret"}
        fetch(Source(f"{first.url}/file", "file", SHA256, len(DATA), secret), tmp_path / "file")
    assert first.requests[0][1]["authorization"] == "Bearer secret"
    assert "authorization" not in site.requests[0][1]


def test_no_room_is_said_before_the_start(tmp_path):
    with pytest.raises(CapacityError, match=rf"model needs {1 << 60} bytes more .* are free in"):
        require_space(tmp_path, 1 << 60, "model")
    require_space(tmp_path, 1, "model")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_disk_that_fills_up(site, tmp_path):
    """What is written goes to /dev/full, which fails as a full disk does."""
    partial_path(tmp_path / "file").symlink_to("/dev/full")
    with pytest.raises(CapacityError, match="the disk is full: file could not be written"):
        fetch(source(site), tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_folder_that_cannot_be_written(site, tmp_path):
    partial_path(tmp_path / "file").mkdir()
    with pytest.raises(FetchError, match=r"file could not be written to .*Is a directory"):
        fetch(source(site), tmp_path / "file")


def test_killed_process_leaves_a_beginning_that_the_next_goes_on_from(site, tmp_path):
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from pyrite.formats.fetch import Source, fetch\n"
        "url, target, size = sys.argv[1:]\n"
        "def slowly(done, total):\n"
        "    if done: print(done, flush=True); time.sleep(60)\n"
        "fetch(Source(url, 'file', None, int(size)), Path(target), slowly)\n"
    )
    arguments = [f"{site.url}/file", str(tmp_path / "file"), str(len(DATA))]
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        assert int(child.stdout.readline()) > 0
        child.send_signal(signal.SIGKILL)
    assert not (tmp_path / "file").exists()
    fetch(source(site), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == DATA


def test_two_at_once_fetch_once(site, tmp_path):
    def one() -> None:
        fetch(source(site), tmp_path / "file")

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() == DATA
    assert len(site.requests) == 1


def test_two_processes_wait_for_each_other(site, tmp_path):
    context = multiprocessing.get_context("spawn")
    children = [
        context.Process(target=fetch, args=(source(site), tmp_path / "file")) for _ in range(2)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert len(site.requests) == 1
