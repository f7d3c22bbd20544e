"""Writes a GGUF file as a folder of safetensors in bfloat16, for peers that read no GGUF.

    PEER_PYTHON benchmarks/drivers/gguf_to_folder.py MODEL.gguf FOLDER

Run in an environment of its own that has torch, transformers, gguf and accelerate. The weights are
those of the file, dequantised: what a peer then computes with is larger, and not better.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(source: Path, folder: Path) -> None:
    file = {"pretrained_model_name_or_path": source.parent, "gguf_file": source.name}
    model = AutoModelForCausalLM.from_pretrained(**file, dtype=torch.bfloat16)
    model.hf_quantizer = None  # else it refuses to be written
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**file).save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
