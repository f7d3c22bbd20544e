"""As much of OpenAI's HTTP as `pyrite bench serve` asks for, around a library that has no server.

`answer(body, emit)` of the library's side gives each piece of text to `emit`, and returns (prompt
tokens, tokens made). Knows no library.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any

Emit = Callable[[str], None]
Answer = Callable[[dict[str, Any], Emit], tuple[int, int]]


class Handler(BaseHTTPRequestHandler):
    name: str
    answer: Answer

    def do_GET(self) -> None:
        self.reply({"data": [{"id": self.name}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not body.get("stream"):
            counts = type(self).answer(body, lambda text: None)
            self.reply({"choices": [], "usage": usage(counts)})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        counts = type(self).answer(body, lambda text: self.event(text, "messages" in body))
        self.write({"choices": [], "usage": usage(counts)})
        self.wfile.write(b"data: [DONE]\n\n")

    def event(self, text: str, chat: bool) -> None:
        choice = {"delta": {"content": text}} if chat else {"text": text}
        self.write({"choices": [{"index": 0, **choice}]})

    def write(self, value: object) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")
        self.wfile.flush()

    def reply(self, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        pass


def usage(counts: tuple[int, int]) -> dict[str, int]:
    return {"prompt_tokens": counts[0], "completion_tokens": counts[1]}


class OneByOne(HTTPServer):
    request_queue_size = 256


class AtOnce(ThreadingHTTPServer):
    request_queue_size = 256


def serve(name: str, port: int, answer: Answer, *, at_once: bool) -> None:
    """`at_once`: the library takes several requests at a time."""
    handler = type("Named", (Handler,), {"name": name, "answer": staticmethod(answer)})
    (AtOnce if at_once else OneByOne)(("127.0.0.1", port), handler).serve_forever()
