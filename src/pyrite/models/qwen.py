"""Qwen 2 and 2.5: Llama's layers with biases on query, key and value, and windows in late layers.

Source: arXiv 2407.10671.
"""

from __future__ import annotations

from pyrite.models import llama
from pyrite.models.config import Family

QWEN2 = Family(
    name="qwen2",
    layer=llama.layer,
    activation="silu",
    query_bias=True,
    late_windows=True,
)
