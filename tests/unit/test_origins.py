"""Errors about a folder name keys of its config.json, whatever GGUF calls them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pyrite.errors import ModelError
from pyrite.formats.checkpoint import open_checkpoint
from pyrite.models.origins import Origins
from pyrite.models.registry import as_gguf, build_plan, open_model


def changed(golden: Path, tmp_path: Path, case: str, **changes: Any) -> Path:
    """A folder with other keys; `...` takes one out. Keys within text_config are added to it."""
    folder = tmp_path / "model"
    shutil.copytree(golden / "tiny" / case, folder)
    config = json.loads((folder / "config.json").read_text())
    if "text_config" in changes:
        changes = {"text_config": config["text_config"] | changes["text_config"]}
    config |= changes
    kept = {key: value for key, value in config.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(kept))
    return folder


YARN = {"rope_type": "yarn", "factor": 0.5, "original_max_position_embeddings": 64}
GROUPS = {"n_group": 4, "topk_group": 1, "num_experts_per_tok": 4, "topk_method": "noaux_tc"}
CASES = {
    "heads that do not divide": (
        "granite",
        {"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": ...},
        "num_attention_heads = 3: hidden_size = 64 is no multiple of it, and head_dim is not",
    ),
    "the same of other names": (
        "gpt2",
        {"n_head": 3},
        "n_head = 3: n_embd = 64 is no multiple of it, and head_dim is not stated",
    ),
    "a size of the text's own": (
        "qwen3_vl",
        {"text_config": {"intermediate_size": 96}},
        r"intermediate_size = 96, and blk\.0\.ffn_up\.weight has 48",
    ),
    "sections of the text's own": (
        "qwen3_vl",
        {"text_config": {"head_dim": 32}},
        r"rope_parameters\.mrope_section = \[3, 3, 2, 0\]: 8 pairs of columns, and 16 turn",
    ),
    "experts of another width": (
        "deepseek_v3",
        {"moe_intermediate_size": 64},
        r"n_shared_experts = 1 of moe_intermediate_size = 64 columns, and ffn_down_shexp",
    ),
    "an odd head": ("qwen3", {"head_dim": 15}, "15 of 15 columns of a head turn: must be even"),
    "a factor below one": ("llama", {"rope_scaling": YARN}, r"rope_scaling.factor = 0.5"),
    "groups that hold too few": (
        "deepseek_v3",
        {**GROUPS, "n_routed_experts": 8},
        "topk_group = 1 of 4 groups, which hold 2 experts: num_experts_per_tok takes more",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_name_what_somebody_wrote(golden: Path, tmp_path: Path, case: str):
    model, changes, message = CASES[case]
    path = changed(golden, tmp_path, model, **changes)
    with pytest.raises(ModelError, match=message) as caught:
        build_plan(open_model(path))
    architecture = as_gguf(open_checkpoint(golden / "tiny" / model)).architecture
    assert f"{architecture}." not in str(caught.value)


def test_a_bound_is_met_in_32_bits_too(golden: Path, tmp_path: Path):
    """1e-12 is a little less there."""
    path = changed(golden, tmp_path, "falcon_mamba", mixer_rms_eps=1e-12)
    build_plan(open_model(path))


def test_sizes_have_an_origin_in_every_folder(golden: Path):
    for folder in sorted((golden / "tiny").iterdir()):
        if not (folder / "config.json").exists() or folder.name == "starcoder2":
            continue
        found = as_gguf(open_checkpoint(folder))
        prefix = found.architecture + "."
        for key in ("block_count", "embedding_length", "context_length", "vocab_size"):
            assert prefix + key in found.origins, (folder.name, key)
        for key in ("attention.head_count", "attention.key_length", "expert_count"):
            if found.metadata.get(prefix + key):
                assert prefix + key in found.origins, (folder.name, key)


def test_what_a_key_is_made_of():
    origins = Origins()
    origins.read("heads", 4, True)
    origins.read("groups", 4, False)
    origins.put("a", 4)
    origins.read("width", 64, True)
    origins.put("b", 4)
    origins.put("c", 64)
    origins.put("d", True)
    origins.read("types", ["x"], True)
    origins.put("e", [True])
    origins.put("f", 7, of="types")
    assert origins.found == {"a": "heads", "c": "width", "e": "types", "f": "types"}
