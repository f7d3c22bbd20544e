"""SmolLM 3: Llama's layers, of which every fourth has no rotary positions.

Source: arXiv 2501.18795 (which explains layers without positions) and the published configuration.
"""

from __future__ import annotations

from dataclasses import replace

from pyrite.models import config as limits
from pyrite.models import hub_config, llama
from pyrite.models.config import Family
from pyrite.models.fields import Fields
from pyrite.models.hub import Folder, hub

PERIOD = 4
SMOLLM3 = replace(llama.LLAMA, name="smollm3", may_have_windows=False, still_period=PERIOD)


def translate(folder: Folder) -> None:
    llama.translate(folder)
    hub_config.no_windows(folder)
    turning = _turning(folder)
    if turning != _by_period(folder.num_layers, PERIOD):  # GGUF takes that for granted
        folder.put("rope.layer_pattern", turning)


def _turning(folder: Folder) -> list[bool]:
    """Which layers have rotary positions."""
    period = folder.keys.integer("no_rope_layer_interval", 1, limits.MAX_LAYERS, PERIOD)
    stated = folder.keys.sequence("no_rope_layers", folder.num_layers)
    if stated is None:
        return _by_period(folder.num_layers, period)
    return [
        Fields({"no_rope_layers": item}).integer("no_rope_layers", 0, 1) == 1 for item in stated
    ]


def _by_period(num_layers: int, period: int) -> list[bool]:
    return [(index + 1) % period != 0 for index in range(num_layers)]


_DEFAULTS = {"rope_theta": 2e6, "tie_word_embeddings": True}

HUBS = {"smollm3": hub("smollm3", translate, defaults=_DEFAULTS)}

FAMILIES: dict[str, Family] = {family.name: family for family in (SMOLLM3,)}
