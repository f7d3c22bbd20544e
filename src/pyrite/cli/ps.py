"""Lists the servers that run on this machine: their model, load, pages in use and speed so far."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
import urllib.error
import urllib.request
from dataclasses import asdict

from pyrite.config import cache_home
from pyrite.server.running import Running, running

SECONDS = 3.0  # that a server may take to answer
LINE = re.compile(r"^(?P<name>[a-z:_0-9]+)\{[^}]*\} (?P<value>\S+)$", re.MULTILINE)
HEADER = ("PID", "URL", "MODEL", "UP", "STATE", "RUNNING", "WAITING", "PAGES", "TOKENS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one object a server")
    parser.add_argument("--api-key", metavar="KEY", help="of the servers (or PYRITE_API_KEY)")


def run(options: argparse.Namespace) -> int:
    key = options.api_key or os.environ.get("PYRITE_API_KEY")
    rows = [(one, load_of(one, key)) for one in running(cache_home())]
    if options.json:
        for one, load in rows:
            print(json.dumps({**asdict(one), **load}))
        return 0
    table = [HEADER, *(line_of(one, load) for one, load in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADER))]
    for row in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        )
    return 0


def load_of(one: Running, key: str | None) -> dict[str, object]:
    """What the server's metrics say, or why they are not to be had."""
    request = urllib.request.Request(f"{one.url}/metrics")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            text = reply.read().decode()
    except urllib.error.HTTPError as error:
        return {"state": "wants a key" if error.code == 401 else f"HTTP {error.code}"}
    except OSError:
        return {"state": "silent"}
    values = {found["name"]: float(found["value"]) for found in LINE.finditer(text)}
    return {
        "state": "ready",
        "running": int(values.get("vllm:num_requests_running", 0)),
        "waiting": int(values.get("vllm:num_requests_waiting", 0)),
        "kv_usage": values.get("vllm:kv_cache_usage_perc", 0.0),
        "generated_tokens": int(values.get("vllm:generation_tokens_total", 0)),
    }


def line_of(one: Running, load: dict[str, object]) -> tuple[str, ...]:
    usage = load.get("kv_usage")
    return (
        str(one.pid),
        one.url,
        one.model,
        span(time.time() - one.started),
        str(load["state"]),
        str(load.get("running", "")),
        str(load.get("waiting", "")),
        f"{usage:.0%}" if isinstance(usage, float) else "",
        str(load.get("generated_tokens", "")),
    )


def span(seconds: float) -> str:
    """Of 93784 seconds "1d2h"."""
    units = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
    parts = []
    for size, name in units:
        count, seconds = divmod(int(seconds), size)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts[:2]) or "0s"
