"""What grammars cost: laying out a vocabulary, compiling, one mask, and a step of many streams.

    python benchmarks/grammar.py MODEL.gguf ...

Masks are timed along answers that the model gives, on the thread that computes them. A step of
constrained streams is paired with one of free streams, in turn; `waited` is the time that masks
took beyond the model's own.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import pyrite
from pyrite.engine import Engine
from pyrite.grammars import vocabulary_of
from pyrite.request import Request
from pyrite.sampling.compiler import GrammarCompiler
from pyrite.sampling.constraint import Constraint
from pyrite.sampling.grammar import Grammar
from pyrite.sampling.masks import Started
from pyrite.sampling.params import SamplingParams

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "role": {"enum": ["reader", "writer", "admin"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            "required": ["street", "city"],
        },
    },
    "required": ["name", "age", "role", "tags"],
}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 50}
TREE = {
    "$defs": {"node": {"type": "object", "properties": {"on": {"$ref": "#/$defs/node"}}}},
    "$ref": "#/$defs/node",
}
GRAMMARS = {
    "person": Grammar.json_schema(PERSON),
    "recursive": Grammar.json_schema(TREE),
    "any object": Grammar.json_object(),
    "500 properties": Grammar.json_schema(
        {"type": "object", "properties": {f"key {index}": PERSON for index in range(500)}}
    ),
    "10k enum": Grammar.json_schema({"enum": [f"value {index}" for index in range(10_000)]}),
    "regex": Grammar.regex(r"[A-Z][a-z]+ [A-Z][a-z]+, [0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "choice": Grammar.choice(["positive", "negative", "neutral"]),
}
STREAMS = (8, 32)
TOKENS = 48


def compiling(model: pyrite.Model) -> None:
    started = time.process_time()
    compiler = GrammarCompiler(lambda: vocabulary_of(model.tokenizer))
    compiler.prepare().result()
    print(f"laying out {model.tokenizer.vocab_size} tokens: {time.process_time() - started:.2f} s")
    for name, grammar in GRAMMARS.items():
        times = []
        for _ in range(5):
            started = time.perf_counter()
            compiler._compiled(grammar)
            times.append(time.perf_counter() - started)
        print(f"compile {name:16} {min(times) * 1e3:7.1f} ms")


def masks(model: pyrite.Model) -> None:
    inner = Constraint.mask
    times: list[float] = []

    def timed(self: Constraint, words: Any) -> None:
        started = time.thread_time()
        inner(self, words)
        times.append(time.thread_time() - started)

    Constraint.mask = timed  # type: ignore[method-assign]
    for name, grammar in {**GRAMMARS, "people": Grammar.json_schema(PEOPLE)}.items():
        for _ in range(2):  # the second one finds the lexer warm
            times.clear()
            model.generate("Some people:\n", grammar=grammar, max_tokens=100, seed=1)
        times.sort()
        median, late = statistics.median(times), times[int(len(times) * 0.99)]
        print(f"mask {name:16} {median * 1e6:6.0f} us, p99 {late * 1e6:6.0f}, of {len(times)}")
    Constraint.mask = inner  # type: ignore[method-assign]


def steps(model: pyrite.Model) -> None:
    waited: list[float] = []
    leave = Started.__exit__

    def timed(self: Started, *raised: object) -> None:
        started = time.perf_counter()
        leave(self, *raised)
        waited.append(time.perf_counter() - started)

    Started.__exit__ = timed  # type: ignore[method-assign]
    prompt = tuple(model.tokenizer.encode("Some people:\n").tolist())
    people = Grammar.json_schema(PEOPLE)
    for count in STREAMS:
        taken: dict[bool, list[float]] = {False: [], True: []}
        for constrained in (False, True) * 2:
            waited.clear()
            grammar = people if constrained else None
            params = SamplingParams(max_tokens=TOKENS, seed=1, grammar=grammar, min_tokens=TOKENS)
            taken[constrained] += stepped(
                model._driver.engine, [Request(str(i), prompt, params) for i in range(count)]
            )
        free, held = (statistics.median(taken[key]) for key in (False, True))
        print(
            f"{count} streams: step {free * 1e3:.2f} ms free, {held * 1e3:.2f} constrained "
            f"({held / free - 1:+.1%}), waited {statistics.median(waited) * 1e6:.0f} us"
        )
    Started.__exit__ = leave  # type: ignore[method-assign]


def stepped(engine: Engine, requests: list[Request]) -> list[float]:
    for request in requests:
        engine.add(request)
    taken = []
    while engine.has_work:
        started = time.perf_counter()
        deltas = engine.step()
        if len(deltas) == len(requests):
            taken.append(time.perf_counter() - started)
    return taken[1:]


def main() -> None:
    for path in sys.argv[1:]:
        print(f"\n## {path}")
        with pyrite.load(path, context=1024, kv_pages=32 * 16) as model:
            compiling(model)
            masks(model)
            steps(model)


if __name__ == "__main__":
    main()
