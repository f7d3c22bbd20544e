"""Pyrite: an LLM inference engine in Python with a small native core.

    model = pyrite.load("model.gguf")
    print(model.chat("Why is the sky blue?", max_tokens=100))

Importing this costs next to nothing: what is named here is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrite.completion import Completion as Completion
    from pyrite.errors import PyriteError as PyriteError
    from pyrite.llm import Model as Model
    from pyrite.llm import load as load
    from pyrite.request import Delta as Delta
    from pyrite.sampling.grammar import Grammar as Grammar
    from pyrite.sampling.params import SamplingParams as SamplingParams
    from pyrite.vllm import LLM as LLM

__version__ = "0.1.0"

_HOMES = {
    "Completion": "pyrite.completion",
    "Delta": "pyrite.request",
    "Grammar": "pyrite.sampling.grammar",
    "LLM": "pyrite.vllm",
    "Model": "pyrite.llm",
    "PyriteError": "pyrite.errors",
    "SamplingParams": "pyrite.sampling.params",
    "load": "pyrite.llm",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'pyrite' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
