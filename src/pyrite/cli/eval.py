"""Measures how well a model foretells a text: perplexity, and the distance from another model.

Perplexity is what llama-perplexity calls so: chunks of 512 tokens, of which the second half counts.
With --reference the model is compared with another one, mostly with what it was quantized from:
the mean, median, 99th percentile and maximum of the Kullback-Leibler divergence, and how often both
hold the same token for the likeliest.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrite.cli import options as shared
from pyrite.cli.models import find_model
from pyrite.cli.progress import Progress
from pyrite.cli.terminal import Terminal, this_terminal
from pyrite.errors import ParameterError

if TYPE_CHECKING:
    from pyrite.formats.checkpoint import Checkpoint
    from pyrite.loading import Loaded

CHUNK = 512
MAX_TEXT_BYTES = 64 << 20
LEAST, MOST = 8, 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("text", metavar="TEXT.txt")
    parser.add_argument("--reference", metavar="MODEL", help="what to measure the distance from")
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_chunks(parser)
    shared.add_threads(parser)
    shared.add_precision(parser)


def add_chunks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--chunk", type=int, help=f"tokens (default: {CHUNK}, or the model's context)"
    )
    parser.add_argument("--chunks", type=int, help="of the text, at most (default: all)")


def run(options: argparse.Namespace) -> int:
    from pyrite.evaluation import score, summary
    from pyrite.passages import cut

    terminal, text = this_terminal(), text_of(options.text)
    chunk = checked_chunks(options, find_model(options.model, terminal))
    model = loaded(options, options.model, chunk, terminal)
    reference = loaded(options, options.reference, chunk, terminal) if options.reference else None
    if reference is not None:
        same_tokens(model.checkpoint, reference.checkpoint, options.reference)
    chunks = cut(model.tokenizer, text, chunk, options.chunks)
    with Progress("evaluating", terminal, unit=tokens) as progress:
        other = reference.engine.runner if reference else None
        found = summary(score(model.engine.runner, chunks, other, progress))
    facts = {"model": options.model, "text": options.text, "chunks": len(chunks), "chunk": chunk}
    print(json.dumps(facts | found, indent=1) if options.json else as_text(found))
    return 0


def loaded(options: argparse.Namespace, name: str, chunk: int, terminal: Terminal) -> Loaded:
    from pyrite.config import Settings
    from pyrite.loading import load_engine

    settings = Settings(
        threads=options.threads,
        precision=options.precision,
        context=chunk,
        speculation="off",
        prefix_cache=False,
    )
    with shared.packing(name) as progress:
        return load_engine(find_model(name, terminal), settings, progress)


def same_tokens(model: Checkpoint, reference: Checkpoint, name: str) -> None:
    """Raises ParameterError where a token means something else to the other model."""
    from pyrite.formats.checkpoint import first_difference
    from pyrite.formats.vocabulary import require_tokenizer

    own, other = require_tokenizer(model).tokens, require_tokenizer(reference).tokens
    if len(own) != len(other) or first_difference(own, other) is not None:
        raise ParameterError("--reference", name, "a model of the same vocabulary")


def text_of(name: str) -> str:
    """Raises ParameterError for what is no text in UTF-8 or has no end, OSError for what cannot be
    read."""
    with Path(name).open("rb") as file:
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        hint = "take a part of it: some megabytes tell as much"
        raise ParameterError("TEXT", name, f"at most {MAX_TEXT_BYTES >> 20} MiB", hint=hint)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ParameterError(
            "TEXT", data[error.start : error.start + 1], f"UTF-8 (byte {error.start} is not)"
        ) from None


def checked_chunks(options: argparse.Namespace, model: Path) -> int:
    from pyrite.models.registry import open_model, read_config

    if options.chunk is not None and not LEAST <= options.chunk <= MOST:
        raise ParameterError("--chunk", options.chunk, f"a whole number from {LEAST} to {MOST}")
    if options.chunks is not None and options.chunks < 1:
        raise ParameterError("--chunks", options.chunks, "at least 1")
    if options.chunk is None:
        return min(CHUNK, read_config(open_model(model)).context_length)
    chunk: int = options.chunk
    return chunk


def as_text(found: dict[str, Any]) -> str:
    from pyrite.cli.show import table

    rows = [
        ("tokens", f"{found['tokens']}"),
        ("perplexity", f"{found['perplexity']:.4f} +- {found['error']:.4f}"),
    ]
    if "reference" in found:
        other, distance = found["reference"], found["divergence"]
        rows += [
            ("reference", f"{other['perplexity']:.4f} +- {other['error']:.4f}"),
            ("log ratio", f"{found['log_ratio']:.5f} +- {found['log_ratio_error']:.5f}"),
            ("divergence", f"{distance['mean']:.5f} +- {distance['error']:.5f}"),
            ("  median", f"{distance['median']:.5f}"),
            ("  99 %", f"{distance['p99']:.5f}"),
            ("  largest", f"{distance['max']:.5f}"),
            ("same top", f"{found['same_top']:.2%} +- {found['same_top_error']:.2%}"),
        ]
    return table(rows)


def tokens(count: int) -> str:
    return f"{count} tokens"
