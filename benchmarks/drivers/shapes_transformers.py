"""Names and shapes of a model's tensors by its config.json on stdin, as JSON. No weights are made.

Run with the Python of the peer's environment: `python -P shapes_transformers.py < config.json`.
"""

from __future__ import annotations

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

config = json.load(sys.stdin)
kind = config.pop("model_type")
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **config))
is_tied = config.get("tie_word_embeddings", config.get("tie_embedding", False))
tied = set(getattr(model, "_tied_weights_keys", None) or ()) if is_tied else set()
shapes = {name: list(value.shape) for name, value in model.state_dict().items() if name not in tied}
json.dump(shapes, sys.stdout)
