"""Speculation against plain decoding, ours against ours, in turn in one process.

    python benchmarks/speculation.py [--draft DRAFT] [--tokens N] [--rounds N] [--threads N] MODEL

Answers to real text, the project's own:
    quote     a document that was quoted before is quoted again, as the model says it (greedy)
    copy      the model is asked for the same file again, and says what it says (greedy); a small
              one soon makes up its own, which repeats itself
    edit      what is drawn is replaced by the file with every seventh line changed: what a model
              does that is better at it than these small ones; the time is that of drawing
    prose     nothing to repeat: drawn at temperature 1
Prints tokens a second of processor time and of wall time, medians over the rounds, and the ratio.
The text of both is compared: it is the same, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyrite
from pyrite.llm import Model

SOURCES = Path(pyrite.__file__).parent
DOCUMENT = Path(__file__).parent.parent / "CONTRIBUTING.md"
PROSE = "The old lighthouse keeper opened the door and saw, to his great surprise,"


@dataclass(frozen=True)
class Case:
    name: str
    prompt: str
    script: str | None  # what is drawn in place of the model's own choice
    temperature: float


def cases(num_characters: int) -> list[Case]:
    code = (SOURCES / "kv" / "pages.py").read_text()[:num_characters]
    told = DOCUMENT.read_text()[num_characters // 3 :][: num_characters // 2] + "\n\n---\n\n"
    asked = f"Here is a file.\n\n```python\n{code}\n```\n\nThe same file again:\n\n```python\n"
    return [
        Case("quote", told + told + told[: lines_of(told, 200)], None, 0.0),
        Case("copy", asked + code[: lines_of(code, 200)], None, 0.0),
        Case("edit", asked, edited(code), 0.0),
        Case("prose", PROSE, None, 1.0),
    ]


def lines_of(text: str, least: int) -> int:
    """The length of whole lines at its beginning."""
    return text.index("\n", least) + 1


def edited(code: str) -> str:
    """Every seventh line has another word at its end."""
    dice = random.Random(1)
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
    lines = code.splitlines()
    for i in range(3, len(lines), 7):
        lines[i] = f"{lines[i]}  # {dice.choice(words)}"
    return "\n".join(lines)


def script_answers(model: Model, script: Sequence[int]) -> None:
    """Replaces what is drawn by the script; an empty one replaces nothing."""
    batch_sampler: Any = model.loaded.engine._sampler
    sample = type(batch_sampler).sample

    def scripted(samplers: Any, *rest: Any) -> Any:
        drawn = sample(batch_sampler, samplers, *rest)
        return [
            replace(one, token_id=script[sampler.num_accepted]) if script else one
            for sampler, one in zip(samplers, drawn, strict=True)
        ]

    batch_sampler.sample = scripted


def answer(model: Model, case: Case, num_tokens: int, seed: int) -> tuple[Any, float, float]:
    """Its tokens, and the tokens a second of processor time and of wall time after the first."""
    script = model.tokenize(case.script) if case.script else []
    script_answers(model, script)
    ids: list[int] = []
    with model.stream(
        case.prompt,
        max_tokens=min(num_tokens, len(script) or num_tokens),
        temperature=case.temperature,
        seed=seed,
        ignore_eos=True,
    ) as stream:
        ids += next(stream).token_ids
        wall, processor = time.perf_counter(), time.process_time()
        for delta in stream:
            ids += delta.token_ids
    count = len(ids) - 1
    return ids, count / (time.process_time() - processor), count / (time.perf_counter() - wall)


def compare(plain: Model, guessing: Model, case: Case, options: argparse.Namespace) -> str:
    speeds: list[tuple[float, float, float, float]] = []
    before = guessing.loaded.engine.stats()
    for seed in range(options.rounds + 1):  # the first is left out: it warms up
        turns = (plain, guessing) if seed % 2 else (guessing, plain)
        told_by = {id(model): answer(model, case, options.tokens, seed) for model in turns}
        pair = [told_by[id(plain)], told_by[id(guessing)]]
        assert pair[0][0] == pair[1][0], f"{case.name}: another text when guessed"
        speeds.append((*pair[0][1:], *pair[1][1:]))
    after = guessing.loaded.engine.stats()
    drafted = after.drafted_tokens - before.drafted_tokens
    accepted = after.accepted_tokens - before.accepted_tokens
    told = [statistics.median(column) for column in zip(*speeds[1:], strict=True)]
    ratios = [statistics.median(row[2 + i] / row[i] for row in speeds[1:]) for i in (0, 1)]
    share = f"{accepted / drafted:.0%}" if drafted else "-"
    return (
        f"| {case.name} | {told[0]:.1f} | {told[2]:.1f} | {ratios[0]:.2f} "
        f"| {told[1]:.1f} | {told[3]:.1f} | {ratios[1]:.2f} | {drafted} | {share} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--draft", default="ngram")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--characters", type=int, default=3000, help="of the file in the prompt")
    parser.add_argument("--cases", nargs="*", default=["quote", "copy", "edit", "prose"])
    options = parser.parse_args()
    print("| text | plain, t/s of processor | guessed | ratio | plain, t/s | guessed | ratio "
          "| guesses | held |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    for name in options.models:
        print(f"| **{Path(name).name}** |")
        with (
            pyrite.load(name, speculation="off", threads=options.threads, context=2048) as plain,
            pyrite.load(
                name, speculation=options.draft, threads=options.threads, context=2048
            ) as guessing,
        ):
            for case in cases(options.characters):
                if case.name in options.cases:
                    print(compare(plain, guessing, case, options), flush=True)


if __name__ == "__main__":
    main()
