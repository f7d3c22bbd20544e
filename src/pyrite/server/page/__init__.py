"""The chat page: one built file, and the headers under which a browser may run it.

`page_routes()` is all that a server needs. The file is built from `ui/` by `make ui`. Knows no
other route, no key and no engine.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILE = Path(__file__).with_name("index.html")

# What the page may do, apart from running its own script and style: nothing but talk to the server
# that it came from. Markup becomes elements in one place only, the sanitizer's.
POLICY = (
    "default-src 'none'",
    "script-src {script}",
    "style-src {style}",
    "connect-src 'self'",
    "img-src 'self' data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
)


@dataclass(frozen=True, slots=True)
class Page:
    """The file in both encodings, and the headers of either."""

    plain: bytes
    packed: bytes  # gzip
    etag: str  # without quotes
    headers: Mapping[str, str]


@cache
def load_page() -> Page:
    """Reads and packs the built file, once a process."""
    plain = FILE.read_bytes()
    headers = {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": content_policy(plain.decode()),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "camera=(), geolocation=(), microphone=()",
        "cache-control": "no-cache",
        "vary": "accept-encoding",
    }
    packed = gzip.compress(plain, 9, mtime=0)
    return Page(plain, packed, hashlib.sha256(plain).hexdigest()[:32], headers)


def content_policy(page: str) -> str:
    """The policy under which the page's one script and one style run, and no other."""
    hashes = {name: inline_hash(page, name) for name in ("script", "style")}
    return "; ".join(POLICY).format(**hashes)


def inline_hash(page: str, name: str) -> str:
    """The source expression of the one element of that name. See CSP level 3, section 2.3.1."""
    (content,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def answer(request: Request) -> Response:
    page = load_page()
    packed = accepts_gzip(request.headers.get("accept-encoding", ""))
    etag = f'"{page.etag}-gzip"' if packed else f'"{page.etag}"'
    headers = {**page.headers, "etag": etag}
    if is_known(etag, request.headers.get("if-none-match", "")):
        return Response(status_code=304, headers=headers)
    if packed:
        headers["content-encoding"] = "gzip"
    return Response(page.packed if packed else page.plain, headers=headers)


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding names gzip, or anything, with a weight above zero."""
    weights = {}
    for part in header.lower().split(","):
        name, _, parameters = part.partition(";")
        weights[name.strip()] = not re.fullmatch(r"\s*q\s*=\s*0(\.0*)?\s*", parameters)
    return weights.get("gzip", weights.get("*", False))


def is_known(etag: str, header: str) -> bool:
    """Whether an If-None-Match names this tag; by weak comparison, as RFC 9110 has it for GET."""
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return "*" in tags or etag in tags


def page_routes() -> list[Route]:
    """The page at `/`, for GET and HEAD."""
    return [Route("/", answer, methods=["GET"], name="page")]
