"""The `transformers` library behind an HTTP server that answers one request after another.

    PEER_PYTHON benchmarks/drivers/transformers_server.py FOLDER --port 8100 --threads 2

For comparison only, in an environment of its own that has torch and transformers: greedy, and
max_tokens to the last one.
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from openai_http import Emit, serve
from transformers import AutoModelForCausalLM, AutoTokenizer


class Parts:
    """What generate() streams into: one piece a token. `put` first gets the prompt."""

    def __init__(self, library: Library, emit: Emit) -> None:
        self.library = library
        self.emit = emit
        self.saw_prompt = False

    def put(self, value: torch.Tensor) -> None:
        if self.saw_prompt:
            self.emit(self.library.tokenizer.decode(value))
        self.saw_prompt = True

    def end(self) -> None:
        pass


class Library:
    def __init__(self, folder: str, dtype: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
        self.model = loaded.eval()

    def prompt(self, body: dict[str, Any]) -> torch.Tensor:
        if "prompt" in body:
            return self.tokenizer(body["prompt"], return_tensors="pt").input_ids
        return self.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).input_ids

    def answer(self, body: dict[str, Any], emit: Emit) -> tuple[int, int]:
        ids, limit = self.prompt(body), body["max_tokens"]
        with torch.inference_mode():
            self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=limit,
                min_new_tokens=limit,
                do_sample=False,
                streamer=Parts(self, emit),
                pad_token_id=0,
            )
        return ids.shape[1], limit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    library = Library(options.folder, options.dtype)
    serve("transformers", options.port, library.answer, at_once=False)


if __name__ == "__main__":
    main()
