"""The one dial: where things are kept, and what a load was asked for.

Settings are parsed once at the edge, validated wholly, then frozen. Nothing here knows a model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from pyrite.errors import ParameterError
from pyrite.records import dataclass

BACKENDS = ("cpu", "reference")
PRECISIONS = ("default", "fast")
KV_TYPES = ("f16", "q8")
NUMA = ("spread", "off")
GENERATION_CONFIG = ("auto", "off")
# Of the others: what 32 bits hold.
LARGEST = {"kv_bytes": 2**62, "kv_store_bytes": 2**62, "threads": 1024}


def cache_home(environment: Mapping[str, str] | None = None) -> Path:
    """Folder of everything Pyrite keeps: models and packed weights.

    PYRITE_HOME, else $XDG_CACHE_HOME/pyrite, else ~/.cache/pyrite. A relative XDG_CACHE_HOME is
    passed over, as the XDG base directory specification demands. The folder may not exist yet.
    """
    named = os.environ if environment is None else environment
    if home := named.get("PYRITE_HOME"):
        return Path(home).expanduser().absolute()
    base = Path(named.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        base = Path(named.get("HOME") or Path.home()) / ".cache"
    return base / "pyrite"


@dataclass(frozen=True, slots=True)
class Settings:
    """What one load was asked for. None means: chosen from the model and the machine.

    Raises ParameterError for a value out of range.
    """

    context: int | None = None  # tokens one request may hold, prompt and output together
    kv_pages: int | None = None  # pages of keys and values for all requests together
    kv_bytes: int | None = None  # the same as bytes; not both
    state_slots: int | None = None  # recurrent states of all requests together, and checkpoints
    max_batch_tokens: int = 512  # tokens one step computes at most
    prefill_chunk: int = 112  # of them for a prompt beside streams; a crowd has more
    prefix_cache: bool = True  # find what was computed for the beginning of an earlier prompt
    speculation: str = "ngram"  # or "off", or the path or name of a draft model
    kv_store_bytes: int | None = None  # of disk, for pages that outlive the process; None: none
    threads: int | None = None
    precision: str = "default"  # "default": at least 15 bits of activation; "fast": 8
    quant: str | None = None  # recipe that floating weights are quantized by; None: they stay
    lora: tuple[str, ...] = ()  # adapters that requests may name: NAME=PATH, or PATH
    backend: str = "cpu"
    kv_type: str = "f16"  # keys and values: 16-bit floats, or "q8": 8 bits, about half the memory
    numa: str = "spread"  # threads keep to memory nodes and weights lie on all; or "off"
    # "auto": requests that state no sampling have what the model's maker recommends; "off": neutral
    generation_config: str = "auto"
    cache: Path = field(default_factory=cache_home)

    def __post_init__(self) -> None:
        for name in ("context", "kv_pages", "kv_bytes", "state_slots", "kv_store_bytes", "threads"):
            _check_count(name, getattr(self, name), optional=True)
        for name in ("max_batch_tokens", "prefill_chunk"):
            _check_count(name, getattr(self, name), optional=False)
        _check_choice("prefix_cache", self.prefix_cache, (True, False))
        if not isinstance(self.speculation, str) or not self.speculation:
            raise ParameterError("speculation", self.speculation, "'ngram', 'off' or a draft model")
        if self.quant is not None and not isinstance(self.quant, str):
            raise ParameterError("quant", self.quant, "the name of a recipe, as q4_k_m")
        if not isinstance(self.lora, tuple) or not all(isinstance(one, str) for one in self.lora):
            raise ParameterError("lora", self.lora, "a tuple of NAME=PATH")
        _check_choice("precision", self.precision, PRECISIONS)
        _check_choice("kv_type", self.kv_type, KV_TYPES)
        _check_choice("numa", self.numa, NUMA)
        _check_choice("generation_config", self.generation_config, GENERATION_CONFIG)
        _check_choice("backend", self.backend, BACKENDS)
        if self.kv_pages is not None and self.kv_bytes is not None:
            raise ParameterError("kv_bytes", self.kv_bytes, "absent when kv_pages is given")


def _check_count(name: str, value: object, *, optional: bool) -> None:
    if value is None and optional:
        return
    largest = LARGEST.get(name, 2**31 - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= largest:
        raise ParameterError(name, value, f"a whole number from 1 to {largest}")


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ParameterError(name, value, " or ".join(repr(choice) for choice in choices))
