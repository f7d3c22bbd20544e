"""Sizes of recurrent layers from GGUF metadata: of state spaces and of RWKV.

`ssm.time_step_limit` and `ssm.norm_epsilon` are keys of ours: GGUF has none for them.
"""

from __future__ import annotations

import math

from pyrite.errors import FormatError
from pyrite.formats.checkpoint import Checkpoint
from pyrite.models import config as limits
from pyrite.models.config import StateSpaceConfig, WkvConfig
from pyrite.models.fields import Fields, shorten

HEAD_NORM_EPS = 64e-5  # RWKV's
PART_EPS = "ssm.norm_epsilon"
STEP_LIMITS = "ssm.time_step_limit"


def read_space(keys: Fields, checkpoint: Checkpoint) -> StateSpaceConfig | None:
    kernel = keys.integer("ssm.conv_kernel", 0, limits.MAX_KERNEL, 0)
    if kernel == 0:
        return None
    is_first = any(name.endswith(".ssm_x.weight") for name in checkpoint.tensors)  # Mamba, not 2
    has_weights = any(name.endswith(".ssm_dt_norm.weight") for name in checkpoint.tensors)
    return StateSpaceConfig(
        kernel=kernel,
        inner=keys.integer("ssm.inner_size", 1, limits.MAX_WIDTH),
        state=keys.integer("ssm.state_size", 1, limits.MAX_WIDTH),
        heads=keys.integer("ssm.time_step_rank", 1, limits.MAX_WIDTH),
        groups=keys.integer("ssm.group_count", 0, 1 if is_first else limits.MAX_HEADS, 0) or 1,
        has_norm=any(name.endswith(".ssm_norm.weight") for name in checkpoint.tensors),
        step_limits=step_limits(keys, STEP_LIMITS),
        part_eps=_part_eps(keys) if is_first and not has_weights else 0.0,
    )


def _part_eps(keys: Fields) -> float:
    """Falcon-Mamba's, where the file does not say, is that of the layers' norms."""
    if not keys.boolean("ssm.dt_b_c_rms", False):
        return 0.0
    default = keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0, 1e-5)
    return keys.number(PART_EPS, 1e-12, 1.0, default)


def read_wkv(keys: Fields, width: int) -> WkvConfig | None:
    head_width = keys.integer("wkv.head_size", 0, limits.MAX_HEAD_WIDTH, 0)
    if head_width == 0:
        return None
    if width % head_width:
        raise FormatError(f"{keys.called('wkv.head_size')} = {head_width}: {width} columns are cut")
    return WkvConfig(
        head_width=head_width,
        decay_rank=keys.integer("attention.decay_lora_rank", 1, limits.MAX_WIDTH),
        rate_rank=keys.integer("attention.iclr_lora_rank", 1, limits.MAX_WIDTH),
        value_rank=keys.integer("attention.value_residual_mix_lora_rank", 1, limits.MAX_WIDTH),
        gate_rank=keys.integer("attention.gate_lora_rank", 1, limits.MAX_WIDTH),
        norm_eps=keys.number("attention.group_norm_epsilon", 0.0, 1.0, HEAD_NORM_EPS),
    )


def step_limits(keys: Fields, key: str) -> tuple[float, float]:
    """The least and the largest step; none by default. The latter may be infinite."""
    stated = keys.sequence(key, 2) or (0.0, math.inf)
    for value in stated:
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise FormatError(f"{keys.called(key)} = {shorten(stated)}: must be two numbers")
    low, high = (float(value) for value in stated)
    if not 0 <= low <= high:
        raise FormatError(f"{keys.called(key)} = {shorten(stated)}: must ascend from 0 or more")
    return low, high
