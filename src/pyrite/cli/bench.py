"""Measures speed as llama-bench does, and the share of what this machine can do.

pp512 computes a prompt of 512 tokens; tg128 makes 128 tokens, one after the other; tg128 x 32 does
so in 32 streams at once, and counts the tokens of all. The mean over the repetitions is told, with
the standard deviation. `of limit` is the least time that the machine could take, over the time
taken: to read every byte once at the measured speed, or to make every product by the fastest
instructions, whichever is longer.
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
BATCH_TOKENS = 512  # of one step, as everywhere; more for more streams


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", default=DEFAULT_MODEL)
    parser.add_argument(
        "-p", "--prompt", default="512", help="tokens of the prompt, or several: 64,512"
    )
    parser.add_argument("-n", "--generate", default="128", help="tokens to make, or several")
    parser.add_argument(
        "-d", "--depth", default="0", help="tokens that are there before, or several"
    )
    parser.add_argument(
        "-b", "--batch", default="1", help="streams that make tokens at once, or several: 1,8,32"
    )
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-o", "--output", choices=FORMATS, default="md")
    parser.add_argument("--limits", action="store_true", help="measure the machine alone")
    shared.add_loading(parser)


def run(options: argparse.Namespace) -> int:
    from pyrite.cli.limits import measure_machine
    from pyrite.cli.limits_report import REPORTS
    from pyrite.cores import choose_threads

    if options.limits:
        print(REPORTS[options.output](measure_machine(choose_threads(options.threads).count)))
        return 0
    if options.repetitions < 1:
        raise ParameterError("--repetitions", options.repetitions, "at least 1")
    return run_tests(options, wanted(options))


def run_tests(options: argparse.Namespace, tests: list[Test]) -> int:
    from pyrite.kv.pages import pages_for

    options.context = options.context or max(test.num_tokens for test in tests) + 1
    room = {
        "kv_pages": max(pages_for(options.context), *(test.num_pages for test in tests)),
        "max_batch_tokens": max(BATCH_TOKENS, *(test.streams for test in tests)),
    }
    terminal = this_terminal()
    with shared.load_model(options, find_model(options.model, terminal), **room) as model:
        from pyrite.cli.limits import measure_limits
        from pyrite.cli.report import REPORTS, describe, row, work_of_model
        from pyrite.cli.speed import measure

        work = work_of_model(model)
        limits = measure_limits(model.loaded.threads.count, work.weight_bytes)
        facts = describe(model)
        rows = []
        for test in tests:
            terminal.note(f"{test.name} ...")
            rates = measure(model, test, options.repetitions)
            cost = work.cost(test.steps(model.loaded.engine.runner.max_tokens))
            rows.append(row(facts, test, rates, cost, limits))
    print(REPORTS[options.output](rows))
    return 0


def wanted(options: argparse.Namespace) -> list[Test]:
    from pyrite.cli.speed import Test

    prompts = counts("--prompt", options.prompt)
    lengths = counts("--generate", options.generate)
    streams = counts("--batch", options.batch)
    if min(streams) < 1:
        raise ParameterError("--batch", options.batch, "at least 1 stream")
    tests = [
        test
        for depth in counts("--depth", options.depth)
        for test in (
            *(Test("pp", count, depth) for count in prompts),
            *(Test("tg", count, depth, many) for count in lengths for many in streams),
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
