"""Measures a server that speaks OpenAI's HTTP: first token, gaps, latency and throughput.

Sends prompts of random words that have the wanted number of tokens on that server, each its own,
and reads streams; any server that reports usage can be measured, so that peers are compared by one
client. `--concurrency` clients ask again as soon as they are answered; `--rate` has requests arrive
at random, so many a second, answered or not.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyrite.cli.bench import counts
from pyrite.cli.terminal import this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.cli.load.drive import Pace
    from pyrite.cli.load.summary import Summary
    from pyrite.cli.load.target import Target

FORMATS = ("table", "json", "csv")
ENDPOINTS = ("chat", "completions")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", default="http://127.0.0.1:8000/v1", help="up to and with /v1")
    parser.add_argument("--model", help="its name there (default: the first of /models)")
    parser.add_argument("--endpoint", choices=ENDPOINTS, default="chat")
    parser.add_argument("--key", help="sent as a bearer token")
    parser.add_argument("--concurrency", type=int, help="clients at once (default: 1)")
    parser.add_argument("--rate", type=float, help="requests that arrive a second, instead")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument(
        "--warmup", type=int, default=0, help="requests before those, one by one, not measured"
    )
    parser.add_argument(
        "--prompt-tokens", default="512", help="of a whole prompt, or several to draw from: 64,1500"
    )
    parser.add_argument("--output-tokens", default="128", help="of an answer, or several")
    parser.add_argument(
        "--shared-prefix-tokens",
        type=int,
        default=0,
        help="of them, the first K are the same in all prompts (in a chat: the system message)",
    )
    parser.add_argument(
        "--no-ignore-eos",
        action="store_true",
        help="do not send ignore_eos, which some servers refuse: answers may end early",
    )
    parser.add_argument("--body", help="a JSON object, merged into each request")
    parser.add_argument("--seed", type=int, default=0, help="of prompts and arrivals")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the whole run")
    parser.add_argument("-o", "--output", choices=FORMATS, default="table")


def run(options: argparse.Namespace) -> int:
    from pyrite.cli.load.table import REPORTS

    judge(options)
    terminal = this_terminal()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        summary = runner.run(measure(options, terminal.note))
    print(REPORTS[options.output](summary))
    return 0 if summary.answered == summary.requests else 1


def judge(options: argparse.Namespace) -> None:
    """Raises ParameterError for what cannot be measured."""
    if options.rate is not None and options.concurrency is not None:
        raise ParameterError("--rate", options.rate, "absent when --concurrency is given")
    for name in ("requests", "concurrency"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ParameterError(f"--{name}", value, "at least 1")
    for name in ("rate", "timeout"):
        value = getattr(options, name)
        if value is not None and not 0 < value < float("inf"):
            raise ParameterError(f"--{name}", value, "more than 0")
    for name in ("prompt_tokens", "output_tokens"):
        flag = f"--{name.replace('_', '-')}"
        if min(counts(flag, getattr(options, name))) < 1:
            raise ParameterError(flag, getattr(options, name), "at least 1")
    for name in ("shared_prefix_tokens", "warmup"):
        if getattr(options, name) < 0:
            flag = f"--{name.replace('_', '-')}"
            raise ParameterError(flag, getattr(options, name), "at least 0")


def loop_factory() -> Any:
    """The lighter event loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def measure(options: argparse.Namespace, note: Any) -> Summary:
    from pyrite.cli.load.drive import Pace, drive
    from pyrite.cli.load.summary import summarize

    target = await find_target(options)
    note(f"learning the words of {target.model} ...")
    requests = await make_requests(target, options)
    first, measured = requests[: options.warmup], requests[options.warmup :]
    note(f"{len(first)} requests to warm up, then {len(measured)} ...")
    limit = options.timeout
    await drive(target.address, first, Pace(concurrency=1), limit_seconds=limit)
    return summarize(await drive(target.address, measured, pace_of(options), limit_seconds=limit))


async def find_target(options: argparse.Namespace) -> Target:
    from dataclasses import replace

    from pyrite.cli.load.http import parse_url
    from pyrite.cli.load.single import first_model
    from pyrite.cli.load.target import Target

    headers = {"Authorization": f"Bearer {options.key}"} if options.key else {}
    target = Target(
        parse_url(options.url), options.model or "", options.endpoint, headers, fields_of(options)
    )
    return target if options.model else replace(target, model=await first_model(target))


def fields_of(options: argparse.Namespace) -> Mapping[str, Any]:
    import json

    fields: dict[str, Any] = {"temperature": 0}
    if not options.no_ignore_eos:
        fields["ignore_eos"] = True
    if options.body:
        try:
            more = json.loads(options.body)
        except ValueError:
            more = None
        if not isinstance(more, dict):
            raise ParameterError("--body", options.body, "a JSON object")
        fields |= more
    return fields


async def make_requests(target: Target, options: argparse.Namespace) -> list[bytes]:
    """Every request of the run, made before the clock starts."""
    import random

    from pyrite.cli.load.prompts import PromptMaker, learn
    from pyrite.cli.load.single import counter

    shared = options.shared_prefix_tokens
    vocabulary = await learn(counter(target), shared=shared > 0)
    dice = random.Random(options.seed)
    maker = PromptMaker(vocabulary, shared_tokens=shared, dice=dice)
    prompts = counts("--prompt-tokens", options.prompt_tokens)
    outputs = counts("--output-tokens", options.output_tokens)
    return [
        target.encode_stream(maker.make(dice.choice(prompts)), dice.choice(outputs))
        for _ in range(options.warmup + options.requests)
    ]


def pace_of(options: argparse.Namespace) -> Pace:
    from pyrite.cli.load.drive import Pace

    if options.rate is not None:
        return Pace(rate=options.rate, seed=options.seed)
    return Pace(concurrency=options.concurrency or 1)
