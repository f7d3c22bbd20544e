"""vLLM on processors, offline: a prompt and its first token; or tokens, less the time of the first.

Eager, in bfloat16, from a folder of safetensors; it needs VLLM_CPU_OMP_THREADS_BIND. Its engine is
a process of its own, which imports this file again: nothing here may run on import.
"""

from __future__ import annotations

import vllm
from asked import Asked, answer, asked, quiet, seconds


def loaded(task: Asked) -> vllm.LLM:
    return vllm.LLM(
        task.model,
        dtype="bfloat16",
        enforce_eager=True,
        gpu_memory_utilization=0.4,
        max_model_len=max(task.prompt, task.depth) + task.generate + 32,
        max_num_seqs=task.streams,
        enable_prefix_caching=False,
    )


def main() -> None:
    tell = quiet()
    task = asked()
    engine = loaded(task)
    ids = task.ids(engine.get_tokenizer().vocab_size)
    prompts = [{"prompt_token_ids": ids}] * task.streams

    def generate(count: int) -> None:
        params = vllm.SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)
        engine.generate(prompts, params, use_tqdm=False)

    generate(2)
    first = seconds(lambda: generate(1))
    if task.prompt:
        count, taken = task.prompt, first
    else:
        count = task.generate * task.streams
        taken = seconds(lambda: generate(task.generate + 1)) - first
    engine.llm_engine.engine_core.shutdown()  # its processes would go on after this one
    answer(tell, count, taken, vllm.__version__)


if __name__ == "__main__":
    main()
