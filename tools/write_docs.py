"""Writes docs/api.md and docs/models.md from the tables that the code works by.

`--check` only compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

import models_doc

from pyrite.sampling import limits as sampling_limits
from pyrite.server import limits
from pyrite.server.metrics import Metrics
from pyrite.server.openapi import READ, markdown

DOCS = Path(__file__).resolve().parent.parent / "docs"

HEAD = """# What the server understands

Made by `tools/write_docs.py` from the tables that requests are checked by: do not edit.

A field is **used**, **refused** with a 400 that says why, or **ignored**, and then named in the
header `x-pyrite-ignored` of the response. A field that is in none of the tables is ignored, too.
`null` is as good as absent.
"""


HEADERS = """## Headers

- `x-request-id`: a request's own, if it has at most 128 letters, digits and `._:/=+-`, or else one
  of the server's, is the id in the response and in the log; at `/v1/messages` also `request-id`,
  after `req_`.
- `x-pyrite-ignored`: fields of the request that changed nothing.
- `x-ratelimit-limit-requests`: what a key may ask in a minute, where that is limited;
  `x-ratelimit-remaining-requests` is left, and after `x-ratelimit-reset-requests` all of it is
  back. The same of `tokens`.
- `retry-after`: seconds to wait, with 429 and 503.
"""


def text() -> str:
    parts = [
        HEAD,
        HEADERS,
        routes_text(),
        "## Fields\n\n" + markdown(),
        limits_text(),
        metrics_text(),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def routes_text() -> str:
    rows = [f"| `{path}` | {words} |" for path, words in READ.items()]
    return "\n".join(["## Without a body", "", "| GET | tells |", "| --- | --- |", *rows])


def limits_text() -> str:
    lines = ["## Limits of the server", "", "`--limit NAME=VALUE` changes one.", ""]
    lines += ["| name | default | status | what |", "| --- | --- | --- | --- |"]
    for row in limits.rows():
        lines.append(f"| {row.name} | {row.default} | {row.status or ''} | {row.words} |")
    lines += ["", "## Bounds of sampling parameters", "", "Beyond one: 400.", ""]
    lines += ["| name | bounds |", "| --- | --- |"]
    lines += [f"| {name} | {bounds} |" for name, bounds in sampling_limits.RANGES.items()]
    return "\n".join(lines)


def metrics_text() -> str:
    lines = ["## Metrics", "", "| name | kind | what |", "| --- | --- | --- |"]
    for family in sorted(Metrics("").families(), key=lambda one: one.name):
        lines.append(f"| {family.name} | {family.type} | {family.documentation} |")
    return "\n".join(lines)


FILES = {"api.md": text, "models.md": models_doc.text}


def main() -> int:
    stale = [name for name, made in FILES.items() if not is_fresh(DOCS / name, made())]
    if "--check" in sys.argv:
        for name in stale:
            print(f"{name} is stale: run tools/write_docs.py")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(FILES[name]())
    return 0


def is_fresh(path: Path, made: str) -> bool:
    return path.exists() and path.read_text() == made


if __name__ == "__main__":
    sys.exit(main())
