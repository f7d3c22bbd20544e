"""Where the seconds of a run went: start, load, prompt, answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrite.cli.session import Answer


@dataclass
class Stages:
    """Seconds since the process started, at the end of each stage; None before it is reached."""

    started: float | None = None  # the verb runs: interpreter and imports are there
    loaded: float | None = None
    first_token: float | None = None

    def as_dict(self, answer: Answer) -> dict[str, Any]:
        """For --json; seconds, and tokens a second where there are enough tokens to tell."""
        kept: dict[str, Any] = {
            "start_seconds": self.started,
            "load_seconds": difference(self.loaded, self.started),
            "first_token_seconds": self.first_token,
        }
        if answer.timings is not None and answer.usage is not None:
            prompt, decode = answer.timings.prompt_seconds, answer.timings.decode_seconds
            kept["prompt_seconds"] = prompt
            kept["decode_seconds"] = decode
            kept["prompt_tokens_per_second"] = rate(answer.usage.prompt_tokens, prompt)
            kept["decode_tokens_per_second"] = rate(answer.usage.completion_tokens - 1, decode)
        return kept

    def lines(self, answer: Answer) -> list[str]:
        kept = self.as_dict(answer)
        lines = [
            f"start        {shown(kept['start_seconds'])}   interpreter and imports",
            f"load         {shown(kept['load_seconds'])}",
            f"first token  {shown(kept['first_token_seconds'])}   since the process started",
        ]
        return lines + speed_lines(answer)


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


def difference(end: float | None, start: float | None) -> float | None:
    return None if end is None or start is None else end - start


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
