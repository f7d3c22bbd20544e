"""xllamacpp's own server: llama.cpp's, started from Python.

    PEER_PYTHON benchmarks/drivers/xllamacpp_server.py MODEL.gguf --port 8100 --slots 32

For comparison only, in an environment of its own. `--context` is that of each slot.
"""

from __future__ import annotations

import argparse
import threading

import xllamacpp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    for name, default in (("port", None), ("slots", 32), ("context", 2048), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=default, required=default is None)
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.port = options.port
    params.n_parallel = options.slots
    params.n_ctx = options.slots * options.context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
