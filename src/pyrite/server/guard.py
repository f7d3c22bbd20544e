"""The one layer before all routes: who may ask, from where, and what is told of it.

In order: the name of the host, the origin, the key, the type of the body, the key's allowance.
Nothing is open without a key but LIVENESS, once there are keys. Each response gets an id (the
client's own, if it sent a fit one), what is left of its key's allowance, and each request one line
in the log, without its prompt. Knows no route.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from pyrite.server.errors import HttpError, status_of
from pyrite.server.http import App, Envelope, Headers, Receive, Scope, Send, send_error
from pyrite.server.keys import Key, Keyring
from pyrite.server.metrics import Metrics
from pyrite.server.quotas import Quota

LIVENESS = "/livez"
ONCE = frozenset({b"host", b"origin", b"authorization", b"x-api-key", b"content-type"})
HOST = re.compile(r"(\[[0-9a-f:.]*\]|[^:]*)(?::[0-9]{1,5})?")
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
CHALLENGE = (b"www-authenticate", b'Basic realm="pyrite", charset="UTF-8"')
ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")
FORM = "application/x-www-form-urlencoded"
access = logging.getLogger("pyrite.access")


class Guard:
    """ASGI application around another. `hosts` are names that clients may call the server by;
    None allows any. `origins` are those of pages elsewhere that may use it."""

    def __init__(
        self,
        app: App,
        *,
        keyring: Keyring,
        hosts: frozenset[str] | None,
        origins: frozenset[str] = frozenset(),
        envelope: Callable[[str, str], tuple[Envelope, Headers]],  # by path and the request's id
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._keyring = keyring
        self._hosts = hosts
        self._origins = origins
        self._envelope = envelope
        self._metrics = metrics
        self._clock = clock
        self._quotas = {key.name: Quota(key, clock()) for key in keyring.keys}

    def charge(self, tenant: str, num_tokens: int) -> None:
        """Tokens that a request of a key has used."""
        if tenant in self._quotas:
            self._quotas[tenant].charge(num_tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        told = Told(send, scope, headers, allowed_origin(headers, self._origins))
        try:
            await self._pass(scope, single(scope["headers"]), receive, told)
        except Exception as error:
            if told.begun:
                raise
            self._metrics.refused(status_of(error))
            envelope, more = self._envelope(scope["path"], told.request_id)
            told.extra += more
            await send_error(told.send, error, envelope)
        finally:
            told.log(scope.get("tenant", ""))

    async def _pass(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, told: Told
    ) -> None:
        check_host(headers, self._hosts)
        check_origin(headers, self._origins)
        if told.origin and scope["method"] == "OPTIONS":
            await told.send({"type": "http.response.start", "status": 204, "headers": PREFLIGHT})
            await told.send({"type": "http.response.body", "body": b""})
            return
        key = self._key(scope, headers, told)
        check_type(scope, headers)
        if key is None or scope["method"] != "POST":
            await self._app(scope, receive, told.send)
            return
        quota = self._quotas[key.name]
        try:
            quota.enter(self._clock())
        finally:
            told.extra += quota.headers(self._clock())
        try:
            await self._app(scope, receive, told.send)
        finally:
            quota.leave()

    def _key(self, scope: Scope, headers: dict[bytes, bytes], told: Told) -> Key | None:
        if not self._keyring.keys or scope["path"] == LIVENESS:
            return None
        presented = presented_key(headers)
        key = None if presented is None else self._keyring.find(presented)
        if key is not None:
            scope["tenant"] = key.name
            return key
        if b"text/html" in headers.get(b"accept", b""):
            told.extra.append(CHALLENGE)  # a browser then asks for the key, as a password
        raise HttpError(
            401,
            "invalid_api_key",
            "no API key was given"
            if presented is None
            else "the API key is not one of this server",
            hint="send it as `Authorization: Bearer KEY`",
        )


PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", b"*, authorization"),
    (b"access-control-max-age", b"600"),
]


class Told:
    """What a response says of itself: its id, its origin; and the line in the log."""

    def __init__(
        self, send: Send, scope: Scope, headers: dict[bytes, bytes], origin: bytes | None
    ) -> None:
        self.origin = origin
        self.extra: list[tuple[bytes, bytes]] = []
        self.request_id = given_id(headers) or secrets.token_hex(8)
        self._send = send
        self._scope = scope
        self._status = 0
        self._started = time.perf_counter()
        scope["request_id"] = self.request_id

    @property
    def begun(self) -> bool:
        """A response has begun: it cannot be another any more."""
        return self._status != 0

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers()]
        await self._send(message)

    def log(self, tenant: str) -> None:
        access.info(
            "request",
            extra={
                "fields": {
                    "id": self.request_id,
                    "method": self._scope["method"][:16],
                    "path": self._scope["path"][:200],
                    "status": self._status or 499,  # nobody was there to be answered
                    "seconds": round(time.perf_counter() - self._started, 4),
                    "key": tenant,
                }
            },
        )

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-request-id", self.request_id.encode()), *self.extra]
        if self.origin:
            headers += [(b"access-control-allow-origin", self.origin), (b"vary", b"Origin")]
        return headers


def given_id(headers: dict[bytes, bytes]) -> str | None:
    """The id that a client or a proxy gave a request; None where a log could not carry it."""
    given = headers.get(b"x-request-id", b"").decode("latin-1")
    return given if ID.fullmatch(given) else None


def single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The headers by name. Raises HttpError 400 for one that says two things at once."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in found and name in ONCE:
            said = f"there are two headers {name.decode('latin-1')!r}"
            raise HttpError(400, "doubled_header", said, hint="send it once")
        found[name] = value
    return found


def check_host(headers: dict[bytes, bytes], hosts: frozenset[str] | None) -> None:
    """Against pages elsewhere whose name was made to point here (DNS rebinding)."""
    if hosts is None:
        return
    named = headers.get(b"host", b"").decode("latin-1").lower()
    found = HOST.fullmatch(named)
    if found is None or found[1] not in hosts:
        raise HttpError(
            403,
            "host_not_allowed",
            f"this server is not called {named[:100]!r}",
            hint="call it by localhost, or start it with --allow-host NAME",
        )


def allowed_origin(headers: dict[bytes, bytes], origins: frozenset[str]) -> bytes | None:
    origin = headers.get(b"origin")
    if origin is None:
        return None
    return origin if "*" in origins or origin.decode("latin-1") in origins else None


def check_origin(headers: dict[bytes, bytes], origins: frozenset[str]) -> None:
    """A page of another origin may not use the server, unless it was allowed to."""
    origin = headers.get(b"origin")
    if origin is None or allowed_origin(headers, origins):
        return
    host = headers.get(b"host", b"").lower()
    if origin.lower() in (b"http://" + host, b"https://" + host):  # https: a proxy may speak it
        return
    raise HttpError(
        403,
        "origin_not_allowed",
        "pages of another origin may not use this server",
        hint="start it with --allow-origin ORIGIN",
    )


def check_type(scope: Scope, headers: dict[bytes, bytes]) -> None:
    """Bodies are JSON. What `curl -d` says by itself is let pass, where no browser speaks."""
    given = headers.get(b"content-type")
    if scope["method"] not in ("POST", "PUT", "PATCH") or given is None:
        return
    kind = given.decode("latin-1").partition(";")[0].strip().lower()
    by_hand = kind == FORM and not {b"origin", b"sec-fetch-site", b"referer"} & headers.keys()
    if kind != "application/json" and not kind.endswith("+json") and not by_hand:
        raise HttpError(
            415,
            "unsupported_media_type",
            f"the body is {kind[:60]!r}",
            hint="send JSON, and `Content-Type: application/json`",
        )


def presented_key(headers: dict[bytes, bytes]) -> bytes | None:
    """Of `Authorization: Bearer`, of Basic its password, or of `x-api-key`."""
    given = headers.get(b"authorization")
    if given is None:
        return headers.get(b"x-api-key")
    scheme, _, rest = given.strip().partition(b" ")
    if scheme.lower() == b"bearer":
        return rest.strip()
    if scheme.lower() == b"basic":
        try:
            return base64.b64decode(rest.strip(), validate=True).partition(b":")[2]
        except binascii.Error:
            return b""
    return b""
