"""Serves a model over HTTP: OpenAI's, Anthropic's and Ollama's dialects, and a page to chat in.

Listens on loopback unless told otherwise. SIGTERM or Ctrl-C lets streams end; a second ends them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from pyrite.cli import options as shared
from pyrite.cli.models import DEFAULT_MODEL, find_model
from pyrite.cli.terminal import this_terminal
from pyrite.config import Settings
from pyrite.server import limits
from pyrite.server.keys import Key, plain_keys, read_keys
from pyrite.server.settings import ServerSettings

KV_STORE_BYTES = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", metavar="MODEL", nargs="?", default=DEFAULT_MODEL, help=f"({DEFAULT_MODEL})"
    )
    group = parser.add_argument_group("serving")
    group.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    group.add_argument("--port", type=int, default=8000, help="0: any free one (8000)")
    group.add_argument("--name", help="the model's name for clients (default: as MODEL is given)")
    group.add_argument(
        "--alias",
        action="append",
        default=[],
        help="another name of the model; may be given several times; '*' is any name",
    )
    group.add_argument(
        "--api-key",
        action="append",
        default=[],
        metavar="KEY",
        help="ask clients for this key; may be given several times (or PYRITE_API_KEY)",
    )
    group.add_argument(
        "--allow-public-without-key",
        action="store_true",
        help="listen on a public address although nobody is asked for a key",
    )
    group.add_argument(
        "--keys", metavar="FILE", help="keys with names and allowances: TOML tables [[key]]"
    )
    group.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name that clients may call the server by",
    )
    group.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin whose pages may use the server; '*' is any",
    )
    group.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change one of the server's limits; --limit help tells them",
    )
    group.add_argument(
        "--isolate-keys", action="store_true", help="share cached prefixes within a key alone"
    )
    group.add_argument("--access-log", action="store_true", help="one line a request, on stderr")
    group.add_argument(
        "--drain-seconds", type=float, default=30.0, help="that streams may take to end (30)"
    )
    group.add_argument("--max-batch-tokens", type=int, default=512, help="tokens of a step (512)")
    group.add_argument(
        "--prefill-chunk",
        type=int,
        default=112,
        help="tokens of a step for a prompt while others stream, and as many again for every two "
        "more prompts: more is sooner for these, and less smooth for the streams (112)",
    )
    group.add_argument(
        "--no-prefix-cache", action="store_true", help="compute every prompt from its beginning"
    )
    group.add_argument(
        "--kv-bytes",
        type=int,
        help="bytes for keys and values of all requests (those of four contexts, at least of "
        "32768 tokens, if memory allows)",
    )
    group.add_argument(
        "--state-slots",
        type=int,
        metavar="N",
        help="recurrent states of all requests, in a model that has some: half for those that run, "
        "half for beginnings that are kept (64, if memory allows)",
    )
    group.add_argument(
        "--kv-store-bytes",
        type=int,
        default=KV_STORE_BYTES,
        metavar="N",
        help="disk for pages of prompts, found again after a restart; 0: none (1 GiB)",
    )
    shared.add_loading(parser)


def run(options: argparse.Namespace) -> int:
    if "help" in options.limit:
        print(limits_text())
        return 0
    server_settings = ServerSettings(
        host=options.host,
        port=options.port,
        aliases=tuple(options.alias),
        keys=keys(options),
        allow_public_without_key=options.allow_public_without_key,
        allow_hosts=tuple(options.allow_host),
        allow_origins=tuple(options.allow_origin),
        isolate_keys=options.isolate_keys,
        drain_seconds=options.drain_seconds,
        limits=limits.parsed(options.limit),
    )
    settings = Settings(
        **shared.loading_of(options),
        max_batch_tokens=options.max_batch_tokens,
        prefill_chunk=options.prefill_chunk,
        prefix_cache=not options.no_prefix_cache,
        kv_bytes=options.kv_bytes,
        state_slots=options.state_slots,
        kv_store_bytes=options.kv_store_bytes or None,
    )
    path = find_model(options.model, this_terminal())

    from pyrite.server.link import EngineLink

    link = EngineLink(path, settings)
    link.on_packing = shared.packing(options.model)
    engine = link.spawn()  # it loads while the imports below go on

    from pyrite.server.logs import start_logging
    from pyrite.server.run import listen, serve

    start_logging(sys.stderr, access=options.access_log)
    listener = listen(server_settings.host, server_settings.port)
    return serve(link, engine, listener, name_of(options), server_settings, say)


def keys(options: argparse.Namespace) -> tuple[Key, ...]:
    """Of the command line, which a list of processes shows, of PYRITE_API_KEY, and of a file."""
    from_environment = os.environ.get("PYRITE_API_KEY")
    plain = [*options.api_key, *([from_environment] if from_environment else [])]
    named = read_keys(Path(options.keys)) if options.keys else []
    return (*plain_keys(plain), *named)


def limits_text() -> str:
    """The table of limits."""
    return "\n".join(
        f"{row.name:<22}{row.default:>12}  {row.status or '':>4} {row.words}"
        for row in limits.rows()
    )


def name_of(options: argparse.Namespace) -> str:
    """A path's last part without its ending; any other model as it was called."""
    path = Path(options.model)
    given = path.stem if path.exists() else str(options.model)
    return str(options.name or given)


def say(text: str) -> None:
    """A log on a full disk keeps no server from serving, or from ending."""
    with contextlib.suppress(OSError):
        print(f"pyrite: {text}", file=sys.stderr, flush=True)
