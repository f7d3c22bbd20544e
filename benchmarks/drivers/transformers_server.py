"""The `transformers` library behind an HTTP server that answers one request after another.

    PEER_PYTHON benchmarks/drivers/transformers_server.py FOLDER --port 8100 --threads 2

For comparison only, in an environment of its own that has torch and transformers. It speaks as much
of OpenAI's chat and text completions as `pyrite bench serve` asks for: greedy, streamed or whole,
max_tokens to the last one.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


class Parts:
    """What generate() streams into: one event a token. `put` first gets the prompt."""

    def __init__(self, handler: Handler, chat: bool) -> None:
        self.handler = handler
        self.chat = chat
        self.saw_prompt = False

    def put(self, value: torch.Tensor) -> None:
        if self.saw_prompt:
            text = self.handler.tokenizer.decode(value)
            choice = {"delta": {"content": text}} if self.chat else {"text": text}
            self.handler.event({"choices": [{"index": 0, **choice}]})
        self.saw_prompt = True

    def end(self) -> None:
        pass


class Handler(BaseHTTPRequestHandler):
    model: Any
    tokenizer: Any

    def do_GET(self) -> None:
        self.reply({"data": [{"id": "transformers"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids = self.prompt(body)
        limit = body["max_tokens"]
        if body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.generate(ids, limit, Parts(self, "messages" in body))
            self.event({"choices": [], "usage": usage(ids, limit)})
            self.wfile.write(b"data: [DONE]\n\n")
        else:
            self.generate(ids, limit, None)
            self.reply({"choices": [], "usage": usage(ids, limit)})

    def prompt(self, body: dict[str, Any]) -> torch.Tensor:
        if "prompt" in body:
            return self.tokenizer(body["prompt"], return_tensors="pt").input_ids
        return self.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).input_ids

    def generate(self, ids: torch.Tensor, limit: int, streamer: Parts | None) -> None:
        with torch.inference_mode():
            self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=limit,
                min_new_tokens=limit,
                do_sample=False,
                streamer=streamer,
                pad_token_id=0,
            )

    def event(self, value: object) -> None:
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


class Server(HTTPServer):
    request_queue_size = 256


def usage(ids: torch.Tensor, made: int) -> dict[str, int]:
    return {"prompt_tokens": ids.shape[1], "completion_tokens": made}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    Handler.tokenizer = AutoTokenizer.from_pretrained(options.folder)
    dtype = getattr(torch, options.dtype)
    Handler.model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=dtype).eval()
    Server(("127.0.0.1", options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
