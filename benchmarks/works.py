"""What engines are asked to do when they are set side by side. Knows no engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """`prompt` tokens at once; or `generate` tokens one by one in each of `streams`, after `depth`
    tokens of each. `start`: a process from its start to its end, with one token made."""

    name: str
    prompt: int = 0
    generate: int = 0
    depth: int = 0
    streams: int = 1
    start: bool = False

    @property
    def unit(self) -> str:
        return "s" if self.start else "t/s"

    @property
    def context(self) -> int:
        """Tokens that one stream ends with."""
        return self.prompt + self.depth + self.generate


WORKS = {
    "prefill": Work("prefill 512", prompt=512),
    "decode": Work("decode", generate=64),
    "streams": Work("decode, 32 streams", generate=16, depth=32, streams=32),
    "deep": Work("decode at 8192", generate=32, depth=8192),
    "start": Work("start, one token", generate=1, start=True),
}
START_PROMPT = "The capital of France is"
