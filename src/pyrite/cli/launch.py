"""Sets the environment in which a well-known client talks to a server that runs here.

`pyrite launch NAME` prints it for a shell: eval "$(pyrite launch openai)". With a command after
`--`, runs that command in it. Without a name, lists the clients.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import NoReturn

from pyrite.cli.clients import CLIENTS, NO_KEY, Client, Server
from pyrite.config import cache_home
from pyrite.errors import RequestError
from pyrite.server.running import running

SECONDS = 3.0  # that a server may take to tell its model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("client", metavar="NAME", nargs="?", help="the client; none: list them")
    parser.add_argument("command", metavar="COMMAND", nargs="*", help="after --: what to run")
    parser.add_argument("--url", help="of the server (default: the one started here last)")
    parser.add_argument("--model", help="that the client asks for (default: the server's)")
    parser.add_argument("--api-key", metavar="KEY", help="of the server (or PYRITE_API_KEY)")


def run(options: argparse.Namespace) -> int:
    if options.client is None:
        print("\n".join(f"{name:<12}{client.about}" for name, client in CLIENTS.items()))
        return 0
    client = client_named(options.client)
    server = find_server(options)
    if options.command:
        if note := client.note(server):
            print(f"pyrite: {options.client} also reads {note}", file=sys.stderr, flush=True)
        become(options.command, {**os.environ, **client.variables(server)})
    print(exports(client, server), end="")
    return 0


def become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """This process goes on as the command; its signals and its exit code are the command's own."""
    os.execvpe(command[0], command, environment)


def client_named(name: str) -> Client:
    if name not in CLIENTS:
        raise RequestError(f"no client {name!r}", hint=f"known are {', '.join(CLIENTS)}")
    return CLIENTS[name]


def find_server(options: argparse.Namespace) -> Server:
    """The server that was named, or the one that was started here last. Raises RequestError."""
    key = options.api_key or os.environ.get("PYRITE_API_KEY", "") or NO_KEY
    if options.url:
        url = options.url.rstrip("/").removesuffix("/v1")
        return Server(url, options.model or model_of(url, key), key)
    here = running(cache_home())
    if not here:
        raise RequestError("no server runs here", hint="start one with pyrite serve, or give --url")
    last = here[-1]
    return Server(last.url.rstrip("/"), options.model or last.model, key)


def model_of(url: str, key: str) -> str:
    """The first model that a server lists."""
    try:
        request = urllib.request.Request(f"{url}/v1/models")
        request.add_header("Authorization", f"Bearer {key}")
        with urllib.request.urlopen(request, timeout=SECONDS) as reply:
            return str(json.load(reply)["data"][0]["id"])
    except urllib.error.HTTPError as error:
        wanted = "give --api-key" if error.code == 401 else "give --model"
        raise RequestError(f"{url} answered {error.code}", hint=wanted) from None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RequestError(f"{url} tells no model: {error}", hint="give --model") from None


def exports(client: Client, server: Server) -> str:
    """Lines for a shell; what a variable cannot tell is in comments."""
    lines = [
        f"export {name}={shlex.quote(text)}" for name, text in client.variables(server).items()
    ]
    notes = [f"# {line}".rstrip() for line in client.note(server).splitlines()]
    return "\n".join([*lines, *notes]) + "\n"
