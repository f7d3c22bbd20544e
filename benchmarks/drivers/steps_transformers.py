"""The `transformers` library: one forward pass of a prompt, or passes of one token a stream.

In bfloat16, or in float32 where the processor has no instructions for it.
"""

from __future__ import annotations

import torch
import transformers
from asked import answer, asked, quiet, seconds

tell = quiet()
task = asked()
torch.set_num_threads(task.threads)
wide = "AVX512" in torch.backends.cpu.get_cpu_capability()
dtype = torch.bfloat16 if wide else torch.float32
model = transformers.AutoModelForCausalLM.from_pretrained(task.model, dtype=dtype).eval()
ids = torch.tensor([task.ids(model.config.vocab_size)] * task.streams)  # (streams, tokens)


@torch.inference_mode()
def prompt() -> object:
    return model(ids, use_cache=True, logits_to_keep=1).past_key_values


@torch.inference_mode()
def tokens(kept: object) -> None:
    for _ in range(task.generate):
        kept = model(ids[:, :1], past_key_values=kept, use_cache=True).past_key_values


if task.prompt:
    prompt()
    count, taken = task.prompt, seconds(prompt)
else:
    kept = prompt()
    model_step = model(ids[:, :1], past_key_values=kept, use_cache=True)
    count, taken = task.generate * task.streams, seconds(lambda: tokens(kept))
answer(tell, count, taken, transformers.__version__)
