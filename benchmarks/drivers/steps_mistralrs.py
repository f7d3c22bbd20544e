"""mistral.rs through its Python package, by its own account of a prompt and of tokens.

It takes texts: the prompt is a word repeated until it has as many tokens as are asked for.
"""

from __future__ import annotations

import os
import threading
from importlib.metadata import version
from pathlib import Path

from asked import answer, asked, quiet, seconds

tell = quiet()
task = asked()
os.environ["RAYON_NUM_THREADS"] = str(task.threads)
os.environ["HF_HUB_OFFLINE"] = "1"

from mistralrs import CompletionRequest, Runner, Which  # noqa: E402 - reads the number of threads

path = Path(task.model)
runner = Runner(
    which=Which.GGUF(quantized_model_id=str(path.parent), quantized_filename=path.name),
    token_source="none",
    max_seqs=task.streams,
    prefix_cache_n=0,
)


def complete(words: int, generate: int) -> object:
    request = CompletionRequest(
        prompt=" town" * words,
        model="default",
        max_tokens=generate,
        temperature=0.0,
        ignore_eos=True,
    )
    return runner.send_completion_request(request).usage


def all_streams() -> None:
    threads = [
        threading.Thread(target=complete, args=(1, task.generate)) for _ in range(task.streams)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if task.prompt:
    usage = complete(task.prompt, 1)
    count, taken = usage.prompt_tokens, usage.total_prompt_time_sec
elif task.streams == 1:
    usage = complete(max(1, task.depth), task.generate + 1)
    count, taken = usage.completion_tokens - 1, usage.total_completion_time_sec
else:
    complete(1, 1)
    count, taken = task.generate * task.streams, seconds(all_streams)
answer(tell, count, taken, version("mistralrs"))
