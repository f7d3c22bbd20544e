"""The chat page as a file: built from these sources, small, served under strict headers."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from pyrite.server.page import FILE, accepts_gzip, load_page, page_routes

UI = Path(__file__).parents[2] / "ui"
MOST_BYTES = 70_000  # gzipped


@pytest.fixture
def client() -> TestClient:
    return TestClient(Starlette(routes=page_routes()))


def digest() -> str:
    """As `ui/build.js` computes it."""
    tops = ("build.js", "package.json", "package-lock.json", "page.html")
    files = [UI / name for name in tops] + list((UI / "src").rglob("*"))
    paths = sorted(path.relative_to(UI).as_posix() for path in files if path.is_file())
    total = hashlib.sha256()
    for path in paths:
        content = (UI / path).read_bytes()
        total.update(f"{path}\0{len(content)}\0".encode() + content)
    return total.hexdigest()


def test_the_built_page_is_that_of_the_sources() -> None:
    (written,) = re.findall(r'<meta name="pyrite-sources" content="(\w+)">', FILE.read_text())
    assert written == digest(), "the page is stale: run `make ui`"


def test_licences_of_what_is_bundled_are_there() -> None:
    text = FILE.with_name("licenses.txt").read_text()
    for name in ("preact", "htm", "marked", "dompurify", "highlight.js"):
        assert re.search(rf"^{re.escape(name)} \d+\.\d+\.\d+ \(", text, re.MULTILINE)


def test_the_lock_names_no_registry() -> None:
    assert "resolved" not in (UI / "package-lock.json").read_text()


def test_the_page_is_small() -> None:
    assert len(load_page().packed) < MOST_BYTES
    assert gzip.decompress(load_page().packed) == FILE.read_bytes()


def test_the_page_loads_nothing_from_elsewhere() -> None:
    text = FILE.read_text()
    head = text[: text.index("<style>")]
    assert re.findall(r"(?:src|href)=\"([^\"]{5})", head) == ["data:"]
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_headers(client: TestClient) -> None:
    headers = client.get("/").headers
    policy = headers["content-security-policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert re.fullmatch(r"script-src 'sha256-[\w+/]{43}='", policy[1])
    assert re.fullmatch(r"style-src 'sha256-[\w+/]{43}='", policy[2])
    for rule in (
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert rule in policy
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_either_encoding_is_the_page(client: TestClient) -> None:
    plain = client.get("/", headers={"accept-encoding": "identity"})
    packed = client.get("/", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert plain.content == packed.content == FILE.read_bytes()
    assert plain.headers["etag"] != packed.headers["etag"]
    assert plain.headers["vary"] == "accept-encoding"


def test_what_is_known_is_not_sent_again(client: TestClient) -> None:
    etag = client.get("/").headers["etag"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = client.get("/", headers={"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == etag
    assert client.get("/", headers={"if-none-match": '"other"'}).status_code == 200


def test_head_and_other_methods(client: TestClient) -> None:
    head = client.head("/", headers={"accept-encoding": "identity"})
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["content-length"]) == len(FILE.read_bytes())
    assert client.post("/").status_code == 405


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
    ],
)
def test_accept_encoding(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
