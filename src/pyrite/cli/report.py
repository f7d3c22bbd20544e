"""The rows of a measurement as Markdown, JSON or CSV; llama-bench's columns, and the shares."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyrite.cli.terminal import size
from pyrite.cli.work import Work, work_of

if TYPE_CHECKING:
    from pyrite.cli.limits import Limits
    from pyrite.cli.speed import Test
    from pyrite.llm import Model

Row = Mapping[str, Any]


def describe(model: Model) -> dict[str, Any]:
    """What all rows of one model share."""
    from pyrite.cli.show import count, types_of

    loaded = model.loaded
    checkpoint = loaded.checkpoint
    types = [name for name in types_of(checkpoint) if name not in ("F32", "F16", "BF16")]
    weights = types[0] if types else next(iter(types_of(checkpoint)))
    return {
        "model": f"{checkpoint.architecture} {weights}",
        "size_bytes": checkpoint.num_bytes,
        "parameters": sum(count(tensor.shape) for tensor in checkpoint.tensors.values()),
        "backend": loaded.settings.backend,
        "precision": loaded.settings.precision,
        "threads": loaded.threads.count,
        "work": work_of(loaded.plan, checkpoint),
    }


def row(facts: Mapping[str, Any], test: Test, rates: list[float], limits: Limits) -> Row:
    mean = statistics.mean(rates)
    return {
        **{key: value for key, value in facts.items() if key != "work"},
        "test": test.name,
        "tokens_per_second": mean,
        "standard_deviation": statistics.stdev(rates) if len(rates) > 1 else 0.0,
        "repetitions": rates,
        **shares(facts["work"], test, mean, limits),
    }


def shares(work: Work, test: Test, mean: float, limits: Limits) -> dict[str, Any]:
    """`of_limit`: products for prompts, bytes for single tokens; attention is not counted."""
    products = work.body_products * mean + work.head_products * mean * heads_a_token(test)
    read = work.decode_bytes * mean
    prompt = test.kind == "pp"
    return {
        "gmac_per_second": products / 1e9,
        "gb_per_second": None if prompt else read / 1e9,
        "of_limit": products / limits.most_products if prompt else read / limits.bytes_read,
        "limit": "compute" if prompt else "memory",
    }


def heads_a_token(test: Test) -> float:
    return 1.0 if test.kind == "tg" else 1.0 / test.count


def as_markdown(rows: list[Row]) -> str:
    head = ["model", "size", "params", "backend", "threads", "test", "t/s", "of limit"]
    cells = [
        [
            one["model"] + (" fast" if one["precision"] == "fast" else ""),
            size(one["size_bytes"]),
            f"{one['parameters'] / 1e6:.2f} M",
            one["backend"],
            str(one["threads"]),
            one["test"],
            f"{one['tokens_per_second']:.2f} ± {one['standard_deviation']:.2f}",
            f"{100 * one['of_limit']:.0f} % of {one['limit']}",
        ]
        for one in rows
    ]
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    right = ["size", "params", "threads", "test", "t/s", "of limit"]
    rule = [
        "-" * (width - 1) + (":" if name in right else "-")
        for name, width in zip(head, widths, strict=True)
    ]

    def line(texts: list[str]) -> str:
        padded = (
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(head, texts, widths, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(head), line(rule), *[line(texts) for texts in cells]])


def as_json(rows: list[Row]) -> str:
    return json.dumps(rows, indent=1)


def as_csv(rows: list[Row]) -> str:
    names = [name for name in rows[0] if name != "repetitions"]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


REPORTS: dict[str, Callable[[list[Row]], str]] = {
    "md": as_markdown,
    "json": as_json,
    "csv": as_csv,
}
