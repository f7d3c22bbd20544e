"""What folders of state-space models have in common, as GGUF has it: sizes and tensors.

Keys are read by the names that hybrids give them; Mamba's rows say what it calls them.
"""

from __future__ import annotations

import math

import numpy as np

from pyrite.errors import FormatError
from pyrite.formats import derived
from pyrite.formats.checkpoint import Tensor
from pyrite.models import config as limits
from pyrite.models import hub_config
from pyrite.models.gguf_recurrent import STEP_LIMITS, step_limits
from pyrite.models.hub import Folder

_MIXER = {
    "in_proj": "ssm_in",
    "conv1d": "ssm_conv1d",
    "x_proj": "ssm_x",
    "dt_proj": "ssm_dt",
    "dt_bias": "ssm_dt.bias",
    "A_log": "ssm_a",
    "D": "ssm_d",
    "norm": "ssm_norm",
    "out_proj": "ssm_out",
}

# How training started, and how a kernel cuts its work.
IGNORED = (
    "chunk_size",
    "mamba_chunk_size",
    "mamba_expand",
    "num_logits_to_keep",
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "time_step_floor",
    "time_step_init_scheme",
    "time_step_max",
    "time_step_min",
    "time_step_scale",
    "use_mamba_kernels",
)


def mixer(module: str) -> dict[str, str]:
    """Tensors of a mixer that is called `module`, and GGUF's names."""
    return {f"{module}.{name}": mapped for name, mapped in _MIXER.items()}


def selective(folder: Folder) -> None:
    """Mamba's sizes."""
    _sizes(folder)
    rank = folder.keys.get("mamba_dt_rank")
    if rank in (None, "auto"):
        rank = math.ceil(folder.stated("embedding_length") / 16)
    else:
        rank = folder.keys.integer("mamba_dt_rank", 1, limits.MAX_WIDTH)
    folder.put("ssm.time_step_rank", rank)


def by_heads(folder: Folder) -> None:
    """Mamba 2's sizes."""
    folder.change("ssm_a", as_column)
    folder.change("ssm_d", as_column)
    _sizes(folder)
    keys, inner = folder.keys, folder.stated("ssm.inner_size")
    if keys.get("mamba_d_head") == "auto":
        heads = keys.integer("mamba_n_heads", 1, inner)
        width = inner // heads
    else:
        width = keys.integer("mamba_d_head", 1, inner, 64)
        heads = keys.integer("mamba_n_heads", 1, inner, max(1, inner // width))
    if heads * width != inner:
        raise FormatError(f"{heads} heads of {width} columns: {inner} columns are scanned")
    groups = keys.integer("mamba_n_groups", 1, heads, 1)
    if heads % groups or inner % groups:
        raise FormatError(f"{heads} heads over {groups} groups: must be a multiple")
    folder.put("ssm.time_step_rank", heads)
    folder.put("ssm.group_count", groups)
    low, high = step_limits(keys, "time_step_limit")
    if (low, high) != (0.0, math.inf):
        folder.put(STEP_LIMITS, [low, high])
    folder.change("ssm_norm.weight", lambda tensor: _by_groups(tensor, groups))


def _sizes(folder: Folder) -> None:
    keys, width = folder.keys, folder.stated("embedding_length")
    expanded = int(width * keys.number("mamba_expand", 1e-3, 1e3, 2.0))
    inner = keys.integer("mamba_d_ssm", 1, limits.MAX_WIDTH, expanded)
    folder.put("ssm.inner_size", inner)
    folder.put("ssm.conv_kernel", keys.integer("mamba_d_conv", 2, limits.MAX_KERNEL, 4))
    folder.put("ssm.state_size", keys.integer("mamba_d_state", 1, limits.MAX_WIDTH, 16))
    hub_config.require(folder, "mamba_conv_bias")
    hub_config.ignore(folder, *IGNORED)
    folder.change("ssm_conv1d.weight", one_channel)
    folder.change("ssm_a", negative)


def one_channel(tensor: Tensor) -> Tensor:
    """PyTorch's taps of a convolution by columns: (columns, 1, taps) -> (columns, taps)."""
    if len(tensor.shape) != 3 or tensor.shape[1] != 1:
        return tensor  # its shape is refused when it is compared
    return derived.reshaped(tensor, (tensor.shape[0], tensor.shape[2]))


def as_column(tensor: Tensor) -> Tensor:
    """(n,) -> (n, 1)."""
    return derived.reshaped(tensor, (*tensor.shape, 1)) if len(tensor.shape) == 1 else tensor


def negative(tensor: Tensor) -> Tensor:
    """Of A_log: GGUF keeps A."""
    return derived.computed(tensor, lambda values, _: -np.exp(values), "minus exp")


def _by_groups(tensor: Tensor, groups: int) -> Tensor:
    if tensor.shape[-1] % groups or len(tensor.shape) != 1:
        return tensor  # its shape is refused when it is compared
    return derived.reshaped(tensor, (groups, tensor.shape[0] // groups))
