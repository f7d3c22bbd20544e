"""The rows of a measurement as Markdown, JSON or CSV; llama-bench's columns, and the shares."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyrite.cli.markdown import table
from pyrite.cli.terminal import size
from pyrite.cli.work import Cost, Work, work_of

if TYPE_CHECKING:
    from pyrite.cli.limits import Limits
    from pyrite.cli.speed import Test
    from pyrite.llm import Model

Row = Mapping[str, Any]
WIDE = ("repetitions", "limits")  # what has no place in a line of CSV


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
        "kv_type": loaded.settings.kv_type,
        "threads": loaded.threads.count,
    }


def work_of_model(model: Model) -> Work:
    loaded = model.loaded
    settings = loaded.settings
    return work_of(loaded.plan, loaded.checkpoint, settings.precision, settings.kv_type)


def row(
    facts: Mapping[str, Any],
    test: Test,
    rates: list[float],
    cost: Cost,
    limits: Limits,
) -> Row:
    """`cost` is that of the whole test."""
    mean = statistics.mean(rates)
    return {
        **facts,
        "test": test.name,
        "streams": test.streams,
        "tokens_per_second": mean,
        "standard_deviation": statistics.stdev(rates) if len(rates) > 1 else 0.0,
        "repetitions": rates,
        **shares(cost, test.streams * test.count / mean, limits),
        "limits": asdict(limits),
    }


def shares(cost: Cost, seconds: float, limits: Limits) -> dict[str, Any]:
    """What the test used of each limit. `of_limit`: of the one that it comes nearest to."""
    of_memory = cost.read_seconds(limits) / seconds
    of_compute = cost.product_seconds(limits) / seconds
    memory = of_memory > of_compute
    return {
        "gb_per_second": cost.num_bytes / seconds / 1e9,
        "gmac_per_second": cost.num_products / seconds / 1e9,
        "of_memory": of_memory,
        "of_compute": of_compute,
        "of_limit": of_memory if memory else of_compute,
        "limit": "memory" if memory else "compute",
        "limit_per_second": (
            limits.reads[0].bytes_per_second
            if memory
            else cost.num_products / cost.product_seconds(limits)
        ),
        "limit_from": limits.reads[0].way if memory else heaviest(cost, limits),
    }


def heaviest(cost: Cost, limits: Limits) -> str:
    """The instructions of most of the products."""
    kind, planes = max(cost.products, key=lambda key: cost.products[key])
    return limits.peak(kind, planes).instructions


def as_markdown(rows: list[Row]) -> str:
    head = ["model", "size", "params", "backend", "threads", "test", "t/s", "of limit", "limit"]
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
            f"{one['limit_per_second'] / 1e9:.1f} "
            f"{'GB' if one['limit'] == 'memory' else 'GMAC'}/s, {one['limit_from']}",
        ]
        for one in rows
    ]
    return table(head, cells, right=head[1:3] + head[4:8])


def as_json(rows: list[Row]) -> str:
    return json.dumps(rows, indent=1)


def as_csv(rows: list[Row]) -> str:
    names = [name for name in rows[0] if name not in WIDE]
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
