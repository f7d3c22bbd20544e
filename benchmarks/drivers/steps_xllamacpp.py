"""xllamacpp: llama.cpp's server inside Python, by its own clock of a prompt and of tokens.

Many streams are asked twice: the second time each finds its prompt in its slot, and only tokens are
made.
"""

from __future__ import annotations

import threading

import xllamacpp
from asked import answer, asked, quiet, seconds

tell = quiet()
task = asked()
params = xllamacpp.CommonParams()
params.model.path = task.model
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = task.threads
params.n_parallel = task.streams
params.n_ctx = task.streams * (max(task.prompt, task.depth) + task.generate + 32)
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
server = xllamacpp.Server(params)
VOCABULARY = 32000  # of any model here, and fewer than all


def complete(stream: int, generate: int, cached: bool) -> dict[str, object]:
    ids = task.ids(VOCABULARY)
    ids[-1] = stream  # each of its own
    return server.handle_completions(
        {
            "prompt": ids,
            "n_predict": generate,
            "max_tokens": generate,
            "temperature": 0,
            "ignore_eos": True,
            "cache_prompt": cached,
            "id_slot": stream,
        }
    )


def all_streams(generate: int) -> None:
    threads = [
        threading.Thread(target=complete, args=(stream, generate, True))
        for stream in range(task.streams)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if task.prompt:
    complete(0, 1, False)
    timings = complete(0, 1, False)["timings"]
    count, taken = timings["prompt_n"], timings["prompt_ms"] / 1000
elif task.streams == 1:
    timings = complete(0, task.generate + 1, False)["timings"]
    count, taken = timings["predicted_n"] - 1, timings["predicted_ms"] / 1000
else:
    all_streams(1)
    count, taken = task.generate * task.streams, seconds(lambda: all_streams(task.generate))
answer(tell, count, taken, xllamacpp.__version__)
