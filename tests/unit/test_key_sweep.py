"""No GGUF key lies without effect: altered alone it is refused, or changes the model's graph.

Every key that an architecture reads, stated by the fixture or not, of a model of each; what is left
is a row of NO_EFFECT, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyrite.errors import PyriteError, UnsupportedError
from pyrite.formats.checkpoint import Checkpoint, open_checkpoint
from pyrite.graph.build import GraphBuilder
from pyrite.models.fields import Fields
from pyrite.models.registry import arranged, as_gguf, build_graph, read_config
from pyrite.models.tensors import check_tensors

TINY = Path(__file__).parent.parent / "golden" / "tiny"
GUESSES = (0, 1, 2, 3, 7, 0.5, 2.0, True, False, "x")

# Keys that say in other words what holds where they are left out, by what they may say.
NEUTRAL = {
    "attention.causal": True,
    "attention.head_count_kv": 0,  # of models without attention
    "attention.kv_lora_rank": 0,
    "attention.q_lora_rank": 0,
    "attention.scale": 0,
    "attention.sliding_window": 0,
    "attn_logit_softcapping": 0,
    "embedding_length_per_layer_input": 0,
    "embedding_scale": 1,
    "expert_count": 0,
    "expert_shared_count": 0,
    "expert_shared_feed_forward_length": 0,
    "expert_used_count": 0,
    "final_logit_softcapping": 0,
    "logit_scale": 1,
    "leading_dense_block_count": 0,  # where all layers have experts
    "nextn_predict_layers": 0,
    "residual_scale": 1,
    "rope.scaling.yarn_ext_factor": 1,
    "rope.scaling.yarn_log_multiplier": 0,
    "ssm.conv_kernel": 0,
    "ssm.dt_b_c_rms": False,
    "wkv.head_size": 0,
}
# Those that have two such words.
NEUTRALS = {
    "attention.scale": (0, 1),  # Gemma 4's is 1
    "attention.temperature_scale": (0,),
    "expert_gating_func": (0, 1, 2),  # 0: the architecture's own
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "expert_weights_norm": (True, False),  # the architecture's own is one of these
    "expert_weights_scale": (0, 1),
    "interleave_moe_layer_step": (1, 2),  # by either the last of two layers has experts
    "rope.scale_linear": (0, 1),
    "rope.scaling.factor": (0, 1),
    "rope.scaling.yarn_attn_factor": (0, 1),  # of DeepSeek's positions it is 1
    "ssm.group_count": (0, 1),
}
# A key that truly carries nothing: why, and the cases, all where there are none.
NO_EFFECT: dict[str, tuple[str, tuple[str, ...]]] = {
    "attention.sliding_window_pattern": ("a period longer than the layers are many", ("phi3",)),
    "feed_forward_length": (
        "all layers have experts, whose width is another key; converters write it all the same",
        (
            *("gpt_oss", "granitemoe", "granitemoehybrid", "granitemoeshared", "minimax_m2"),
            *("mixtral", "olmoe", "qwen2_moe", "qwen3_5_moe_text", "qwen3_moe", "qwen3_next"),
            "qwen3_vl_moe",
        ),
    ),
    "rope.dimension_count": ("the file says that nothing turns", ("granitemoehybrid",)),
    "rope.freq_base": ("the file says that nothing turns", ("granitemoehybrid",)),
    "rope.scale_linear": ("the file says that nothing turns", ("granitemoehybrid",)),
    "rope.scaling.factor": ("the file says that nothing turns", ("granitemoehybrid",)),
    "rope.dimension_sections": ("the parts of a text's positions are all the same", ()),
    "rope.layer_pattern": ("a period longer than the layers are many", ()),
    "rope.scaling.original_context_length": ("files state it where nothing is scaled, too", ()),
    "use_parallel_residual": ("a norm of its own shows it; old files say true of all", ()),
}


def graph_of(file: Checkpoint) -> Any:
    """What is computed, as written; raises PyriteError."""
    model = arranged(file)
    config, builder = read_config(model), GraphBuilder()
    graph = build_graph(config, builder)
    check_tensors(model, builder.weights)
    return graph, config.context_length, config.vocabulary


def others(value: Any) -> list[Any]:
    """Plausible values that a file might have instead."""
    if isinstance(value, bool | np.bool_):
        return [not value]
    if isinstance(value, int | np.integer):
        found = [value + 1, value - 1, 2 * value, 3 * value, value // 2, 0, 1]
    elif isinstance(value, float | np.floating):
        found = [1.5 * value, 0.5 * value, value + 1, 0.0, 1.0]
    elif isinstance(value, list):
        found = [[*value, value[-1]], value[::-1]]
        for index, item in enumerate(value):
            found += [[*value[:index], one, *value[index + 1 :]] for one in others(item)[:2]]
    else:
        found = ["x", "none", "linear", "yarn"]
    return [one for one in found if one != value]


def keys_of(file: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """Its graph, and all keys that are read or stated, without the architecture before them."""
    read: set[str] = set()
    get = Fields.get

    def followed(self: Fields, key: str) -> Any:
        read.add(self.prefix + key)
        return get(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(Fields, "get", followed)
        graph = graph_of(file)
    prefix = file.architecture + "."
    names = {name for name in read | file.metadata.keys() if name.startswith(prefix)}
    return graph, sorted(name.removeprefix(prefix) for name in names)


def without_effect(file: Checkpoint, key: str, graph: Any) -> Iterator[Any]:
    name = f"{file.architecture}.{key}"
    stated = file.metadata.get(name)
    count = file.metadata[f"{file.architecture}.block_count"]
    for value in GUESSES if stated is None else others(stated):
        try:
            found = graph_of(replace(file, metadata={**file.metadata, name: value}))
        except PyriteError:
            continue
        if found == graph and (key, value) != ("leading_dense_block_count", count):
            yield value  # all layers are dense in a model without experts


def is_neutral(key: str, value: Any) -> bool:
    words = NEUTRALS.get(key, (NEUTRAL[key],) if key in NEUTRAL else ())
    return any(word == value for word in words)


def cases() -> list[str]:
    return sorted(path.name for path in TINY.iterdir() if (path / "config.json").exists())


@pytest.mark.parametrize("case", cases())
def test_a_key_that_is_altered_is_noticed(case: str, monkeypatch: pytest.MonkeyPatch):
    try:
        file = as_gguf(open_checkpoint(TINY / case))
    except UnsupportedError:
        pytest.skip(f"{case} is not executed")
    file = replace(file, format="gguf", origins={})
    graph, keys = keys_of(file, monkeypatch)
    assert len(keys) > 10
    silent = {}
    for key in keys:
        allowed = NO_EFFECT.get(key)
        if allowed is not None and (not allowed[1] or case in allowed[1]):
            continue
        values = [one for one in without_effect(file, key, graph) if not is_neutral(key, one)]
        if values:
            silent[key] = values
    assert not silent


def test_no_exception_is_idle():
    """Each names a model that there is."""
    for reason, names in NO_EFFECT.values():
        assert reason
        assert set(names) <= set(cases())
