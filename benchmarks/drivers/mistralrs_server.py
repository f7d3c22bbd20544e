"""mistral.rs' Python package behind an HTTP server: the package from PyPI has none of its own.

    PEER_PYTHON benchmarks/drivers/mistralrs_server.py MODEL.gguf --port 8100 --slots 32

For comparison only, in an environment of its own. RAYON_NUM_THREADS sets its threads.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mistralrs import ChatCompletionRequest, CompletionRequest, Runner, Which
from openai_http import Emit, serve


class Library:
    def __init__(self, model: Path, slots: int) -> None:
        self.runner = Runner(
            which=Which.GGUF(quantized_model_id=str(model.parent), quantized_filename=model.name),
            token_source="none",
            max_seqs=slots,
        )

    def answer(self, body: dict[str, Any], emit: Emit) -> tuple[int, int]:
        common = {"model": "default", "max_tokens": body["max_tokens"], "temperature": 0.0}
        common["ignore_eos"] = bool(body.get("ignore_eos"))
        if "prompt" in body:  # which it does not stream
            request = CompletionRequest(prompt=body["prompt"], **common)
            done = self.runner.send_completion_request(request)
            emit(done.choices[0].text)
            return done.usage.prompt_tokens, done.usage.completion_tokens
        request = ChatCompletionRequest(messages=body["messages"], stream=True, **common)
        counts = (0, 0)
        for part in self.runner.send_chat_completion_request(request):
            for choice in part.choices:
                if choice.delta.content:
                    emit(choice.delta.content)
            if part.usage is not None:
                counts = part.usage.prompt_tokens, part.usage.completion_tokens
        return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=32)
    options = parser.parse_args()
    serve("mistral.rs", options.port, Library(options.model, options.slots).answer, at_once=True)


if __name__ == "__main__":
    main()
