"""Where the seconds of a run went, stage by stage, and how fast the answer came.

The stages follow each other without a gap, so that they add up to the first token.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cli import ENTERED
from pyrite.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyrite.cli.session import Answer

# What the largest imports are of, in an order in which none of them imports the next.
PACKAGES = {
    "import numpy": "numpy",
    "import native": "pyrite._native",
    "import pyrite": "pyrite.llm",
}

MEANINGS = {
    "interpreter": "Python itself, until Pyrite's first line (10 ms steps)",
    "command line": "options parsed",
    "find": "the model's file found, or fetched",
    "open": "metadata and the table of tensors",
    "plan": "operations fused, memory placed",
    "weights": "packed ones mapped, or packed",
    "tokenizer": "waited for; it is made meanwhile",
    "engine": "pages and scheduler",
    "import jinja2": "for the chat template",
    "prompt text": "template rendered, tokens found",
    "prompt": "through the model, first token drawn",
}


class Stages:
    """Fed by `run`. Seconds since the process started are None where the system does not tell."""

    def __init__(self) -> None:
        age = since_process_start()
        entered = time.perf_counter() - ENTERED
        self._watch = Stopwatch()
        self._has_age = age is not None
        self.seconds = {"interpreter": (age or entered) - entered, "command line": entered}
        self.first_token: float | None = None  # seconds since the process started

    @property
    def started(self) -> float:
        """The verb runs."""
        return self.seconds["interpreter"] + self.seconds["command line"]

    def lap(self, name: str) -> None:
        self._watch.lap(name)
        self.seconds[name] = self._watch.seconds[name]

    def import_packages(self) -> None:
        for name, package in PACKAGES.items():
            import_module(package)
            self.lap(name)

    def loaded(self, parts: Mapping[str, float]) -> None:
        """Ends the loading, whose own stages were `parts`."""
        self._watch.lap("load")
        rest = self._watch.seconds["load"] - sum(parts.values())
        self.seconds |= {**parts, "engine": parts.get("engine", 0.0) + rest}

    def note_first_token(self) -> None:
        """To be called with each text; the first call counts."""
        if "prompt text" not in self.seconds:
            self.lap("prompt text")  # and the prompt: `answered` takes it out
            self.first_token = sum(self.seconds.values()) if self._has_age else None

    def answered(self, answer: Answer) -> None:
        if answer.timings is not None and "prompt text" in self.seconds:
            self.seconds["prompt text"] -= answer.timings.prompt_seconds
            self.seconds["prompt"] = answer.timings.prompt_seconds

    def as_dict(self, answer: Answer) -> dict[str, Any]:
        """For --json; seconds, and tokens a second where there are enough tokens to tell."""
        kept: dict[str, Any] = {
            "start_seconds": self.started,
            "load_seconds": self._watch.seconds.get("load"),
            "first_token_seconds": self.first_token,
            "stages": self.seconds,
        }
        if answer.timings is not None and answer.usage is not None:
            prompt, decode = answer.timings.prompt_seconds, answer.timings.decode_seconds
            kept["prompt_seconds"] = prompt
            kept["decode_seconds"] = decode
            kept["prompt_tokens_per_second"] = rate(answer.usage.prompt_tokens, prompt)
            kept["decode_tokens_per_second"] = rate(answer.usage.completion_tokens - 1, decode)
        return kept

    def lines(self, answer: Answer) -> list[str]:
        rows = [
            f"  {name:<15} {1e3 * seconds:8.1f} ms   {MEANINGS.get(name, '')}".rstrip()
            for name, seconds in self.seconds.items()
        ]
        total = f"first token {shown(self.first_token)}   since the process started, of which"
        return [total, *rows, *speed_lines(answer)]


def speed_lines(answer: Answer) -> list[str]:
    if answer.timings is None or answer.usage is None:
        return []
    usage, timings = answer.usage, answer.timings
    rows = (
        ("prompt", usage.prompt_tokens, usage.prompt_tokens, timings.prompt_seconds),
        ("answer", usage.completion_tokens, usage.completion_tokens - 1, timings.decode_seconds),
    )
    return [
        f"{name:<12} {shown(seconds)}   {tokens} tokens"
        + (f", {speed:.1f} tokens/s" if (speed := rate(timed, seconds)) else "")
        for name, tokens, timed, seconds in rows
    ]


def rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if tokens > 0 and seconds > 0 else None


def shown(seconds: float | None) -> str:
    return "      - s" if seconds is None else f"{seconds:7.3f} s"


def since_process_start() -> float | None:
    """Seconds that this process has lived, by the kernel's account (10 ms steps)."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (OSError, ValueError, IndexError):
        return None
    import os

    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
