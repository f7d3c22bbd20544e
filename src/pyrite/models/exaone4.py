"""EXAONE 4: norms follow attention and feed-forward, as OLMo 2 has them, and heads are normalised.

With windows, the layers without one have no rotary positions.

Source: arXiv 2507.11407 and the published configurations.
"""

from __future__ import annotations

from pyrite.errors import FormatError
from pyrite.models import hub_config, olmo
from pyrite.models.config import Family
from pyrite.models.fields import shorten
from pyrite.models.hub import Folder, hub

PERIOD = 4
EXAONE4 = Family(
    name="exaone4",
    layer=olmo.layer,
    head_norms="head",
    window_pattern=PERIOD,
    may_have_windows=True,
    turns_in_windows=True,
)


def translate(folder: Folder) -> None:
    hub_config.decoder(folder, eps=1e-5)
    if folder.keys.get("sliding_window") is None:
        hub_config.no_windows(folder)
        hub_config.ignore(folder, "sliding_window_pattern")
    else:
        hub_config.windows(folder, PERIOD, narrow=_by_letters(folder))


def _by_letters(folder: Folder) -> tuple[bool, ...] | None:
    """Of each layer whether it sees a window, from "LLLG", which repeats; None: it is no text."""
    letters = folder.keys.get("sliding_window_pattern")
    if not isinstance(letters, str):
        return None
    if not letters or set(letters) - {"L", "G"}:
        raise FormatError(f"sliding_window_pattern = {shorten(letters)}: must be of L and G")
    return tuple(letters[index % len(letters)] == "L" for index in range(folder.num_layers))


HUBS = {"exaone4": hub("exaone4", translate, olmo.POST_NORM)}

FAMILIES = {EXAONE4.name: EXAONE4}
