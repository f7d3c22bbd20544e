"""Measures speed as llama-bench does, and the share of what this machine can do.

pp512 computes a prompt of 512 tokens; tg128 makes 128 tokens, one after the other. The mean over
the repetitions is told, with the standard deviation. `of limit` sets prompts against the products
that the processor can make, and tokens against the bytes that memory can give.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyrite.cli import options as shared
from pyrite.cli.models import DEFAULT_MODEL, find_model
from pyrite.cli.terminal import this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.cli.speed import Test

FORMATS = ("md", "json", "csv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument(
        "-p", "--prompt", default="512", help="tokens of the prompt, or several: 64,512"
    )
    parser.add_argument("-n", "--generate", default="128", help="tokens to make, or several")
    parser.add_argument(
        "-d", "--depth", default="0", help="tokens that are there before, or several"
    )
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-o", "--output", choices=FORMATS, default="md")
    parser.add_argument("--limits", action="store_true", help="measure the machine alone")
    shared.add_loading(parser)


def run(options: argparse.Namespace) -> int:
    from pyrite.cli.limits import limits_text, measure_limits
    from pyrite.cores import choose_threads

    if options.limits:
        print(limits_text(measure_limits(choose_threads(options.threads).count)))
        return 0
    if options.repetitions < 1:
        raise ParameterError("--repetitions", options.repetitions, "at least 1")
    tests = wanted(options)
    options.context = options.context or max(test.num_tokens for test in tests) + 1
    terminal = this_terminal()
    with shared.load_model(options, find_model(options.model, terminal)) as model:
        from pyrite.cli.report import REPORTS, describe, row
        from pyrite.cli.speed import measure

        limits = measure_limits(model.loaded.threads.count)
        facts = describe(model)
        rows = []
        for test in tests:
            terminal.note(f"{test.name} ...")
            rows.append(row(facts, test, measure(model, test, options.repetitions), limits))
    print(REPORTS[options.output](rows))
    return 0


def wanted(options: argparse.Namespace) -> list[Test]:
    from pyrite.cli.speed import Test

    prompts = counts("--prompt", options.prompt)
    lengths = counts("--generate", options.generate)
    tests = [
        test
        for depth in counts("--depth", options.depth)
        for test in (
            *(Test("pp", count, depth) for count in prompts),
            *(Test("tg", count, depth) for count in lengths),
        )
        if test.count
    ]
    if not tests:
        raise ParameterError("--prompt and --generate", 0, "not both 0: nothing is left to measure")
    return tests


def counts(name: str, text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0:
        raise ParameterError(name, text, "whole numbers from 0, with commas between")
    return numbers
