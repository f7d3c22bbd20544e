"""A summary as text for people, as JSON, or as one line of CSV with its head."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from pyrite.cli.load.summary import Spread, Summary

ROWS = (
    ("first token", "first_token"),
    ("between parts", "gap"),
    ("per output token", "per_output_token"),
    ("whole answer", "latency"),
)


def as_table(summary: Summary) -> str:
    lines = [
        f"requests          {summary.answered} of {summary.requests} answered{_faults(summary)}",
        f"prompt tokens     {summary.prompt_tokens}{_each(summary)}",
        f"output tokens     {summary.output_tokens}, in {summary.output_tokens_by_chunks} parts",
        f"duration          {summary.seconds:.2f} s",
        f"throughput        {summary.output_tokens_per_second:.1f} output tokens/s, "
        f"{summary.total_tokens_per_second:.1f} with prompts, "
        f"{summary.requests_per_second:.2f} requests/s",
        f"{'seconds':<18}" + "".join(f"{name:>9}" for name in ("p50", "p90", "p99", "max")),
        *[_row(name, getattr(summary, key)) for name, key in ROWS],
        f"this client       {summary.client_processor_seconds:.2f} s of processor, "
        f"{summary.client_core_share:.1%} of one core",
    ]
    if summary.first_fault:
        lines.append(f"first fault       {' '.join(summary.first_fault.split())}")
    return "\n".join(lines)


def _faults(summary: Summary) -> str:
    return "".join(f"; {kind}: {count}" for kind, count in summary.faults.items())


def _each(summary: Summary) -> str:
    fewest, most = summary.fewest_prompt_tokens, summary.most_prompt_tokens
    each = f"{most} each" if fewest == most else f"{fewest} to {most} each"
    return f", {each}, {summary.cached_tokens} of them cached"


def _row(name: str, spread: Spread) -> str:
    values = (spread.p50, spread.p90, spread.p99, spread.max)
    return f"{name:<18}" + "".join(
        f"{'-' if value is None else f'{value:.3f}':>9}" for value in values
    )


def as_json(summary: Summary) -> str:
    return json.dumps(asdict(summary), indent=1)


def as_csv(summary: Summary) -> str:
    row = flat(summary)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(row), lineterminator="\n")
    writer.writeheader()
    writer.writerow(row)
    return text.getvalue().rstrip("\n")


def flat(summary: Summary) -> dict[str, Any]:
    """`first_token_p50` and so on; faults as one number."""
    row: dict[str, Any] = {}
    for name in (field.name for field in fields(summary)):
        value = getattr(summary, name)
        if isinstance(value, Spread):
            row |= {f"{name}_{key}": one for key, one in asdict(value).items()}
        elif name == "faults":
            row[name] = sum(value.values())
        elif name != "first_fault":
            row[name] = value
    return row


REPORTS: dict[str, Callable[[Summary], str]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
}
