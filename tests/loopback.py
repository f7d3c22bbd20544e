"""An HTTP server on the loopback interface for tests of downloads, with faults on demand."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What a server has, and what goes wrong: every list is used up request by request."""

    pages: dict[str, bytes] = field(default_factory=dict)  # path -> content
    types: dict[str, str] = field(default_factory=dict)  # path -> content type
    redirects: dict[str, str] = field(default_factory=dict)  # path -> URL
    statuses: list[int] = field(default_factory=list)  # answered instead
    cuts: list[int] = field(default_factory=list)  # bytes sent before the connection is closed
    ranges: bool = True  # whether parts can be asked for
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def asked(self, path: str) -> list[str | None]:
        """The Range headers of the requests for a path."""
        return [headers.get("range") for asked, headers in self.requests if asked == path]

    def add_json(self, path: str, content: object, kind: str = "application/json") -> None:
        self.pages[path] = json.dumps(content).encode()
        self.types[path] = kind


@contextmanager
def serve(site: Site) -> Iterator[Site]:
    server = _Server(("127.0.0.1", 0), _handler(site))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


def _handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            headers = {key.lower(): value for key, value in self.headers.items()}
            site.requests.append((path, headers))
            if site.statuses:
                self.send_error(site.statuses.pop(0))
            elif path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[path])
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif path in site.pages:
                self.content(path, headers.get("range"))
            else:
                self.send_error(404)

        def content(self, path: str, wanted: str | None) -> None:
            data, start = site.pages[path], 0
            if wanted and site.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])
                if start >= len(data):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            else:
                self.send_response(200)
            body = data[start:]
            self.send_header("Content-Type", site.types.get(path, "application/octet-stream"))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if site.cuts:
                body = body[: site.cuts.pop(0)]
                self.close_connection = True
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler
