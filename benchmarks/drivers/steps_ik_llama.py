"""ik_llama.cpp through its Python bindings: batches of a prompt, or of one token a stream.

Weights are repacked while loading, as its `-rtr 1` does, and flash attention is on; but for many
streams, where its AVX2 kernels end in an assertion (S > 0).
"""

from __future__ import annotations

import os
from importlib.metadata import version

from asked import answer, asked, quiet, seconds

task = asked()
os.environ["OMP_NUM_THREADS"] = str(task.threads)

import ik_llama_cpp._ctypes_api as api  # noqa: E402 - reads the number of threads
from ik_llama_cpp._internals import IkContext, IkModel  # noqa: E402

MICRO_BATCH = 512

tell = quiet()


class Model(IkModel):
    def __init__(self, path: str) -> None:
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.use_mmap = False
        params.repack_tensors = True
        self._model = api.llama_model_load_from_file(path.encode(), params)
        if not self._model:
            raise SystemExit(f"{path} cannot be loaded")
        self._vocab = api.llama_model_get_vocab(self._model)
        self.n_vocab = api.llama_vocab_n_tokens(self._vocab)


def run(rows: list[tuple[int, int, int]]) -> None:
    """(token, position, stream) of each row; the logits of the last of each stream are made."""
    batch = api.llama_batch_init(len(rows), 0, 1)
    batch.n_tokens = len(rows)
    last = {stream: row for row, (_, _, stream) in enumerate(rows)}
    for row, (token, position, stream) in enumerate(rows):
        batch.token[row] = token
        batch.pos[row] = position
        batch.n_seq_id[row] = 1
        batch.seq_id[row][0] = stream
        batch.logits[row] = last[stream] == row
    if context.decode(batch) != 0:
        raise SystemExit("llama_decode failed")
    api.llama_batch_free(batch)


def prompt(streams: range) -> None:
    for stream in streams:
        for start in range(0, len(ids), MICRO_BATCH):
            part = enumerate(ids[start : start + MICRO_BATCH], start)
            run([(token, position, stream) for position, token in part])


def tokens() -> None:
    for position in range(len(ids), len(ids) + task.generate):
        run([(ids[0], position, stream) for stream in range(task.streams)])


model = Model(task.model)
ids = task.ids(model.n_vocab)
context = IkContext(
    model,
    n_ctx=task.streams * (len(ids) + task.generate + 32),
    n_threads=task.threads,
    flash_attn=task.streams == 1,
    n_seq_max=task.streams,
)
prompt(range(task.streams))
if task.prompt:
    context.kv_cache_clear()
    count, taken = task.prompt, seconds(lambda: prompt(range(1)))
else:
    count, taken = task.generate * task.streams, seconds(tokens)
answer(tell, count, taken, version("ik-llama-cpp-python"))
