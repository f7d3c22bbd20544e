"""The limits of a machine as text, JSON or CSV: one table, a column for each number of threads."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from pyrite.cli.limits import Limits
from pyrite.cli.machine import machine_line
from pyrite.cli.markdown import table
from pyrite.cli.terminal import size


def as_markdown(found: Sequence[Limits]) -> str:
    counts = [f"{one.threads} thread{'s' if one.threads > 1 else ''}" for one in found]
    rows = [
        ["read", f"{last.what}: {size(last.num_bytes)}, {last.way}", "GB/s"]
        + [f"{one.reads[index].bytes_per_second / 1e9:.1f}" for one in found]
        for index, last in enumerate(found[-1].reads)
    ]
    rows += [
        [last.isa, f"{last.instructions} ({last.factors})", "GMAC/s"]
        + [f"{one.peaks[index].products_per_second / 1e9:.1f}" for one in found]
        for index, last in enumerate(found[-1].peaks)
    ]
    costs = [one.phase_seconds for one in found if one.phase_seconds is not None]
    if len(costs) == len(found):
        rows.append(["team", "one phase of a step", "us", *(f"{cost * 1e6:.2f}" for cost in costs)])
    head = ["limit", "of", "unit", *counts]
    return f"{machine_line()}\n\n{table(head, rows, right=counts)}"


def as_json(found: Sequence[Limits]) -> str:
    return json.dumps([asdict(one) for one in found], indent=1)


def as_csv(found: Sequence[Limits]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["threads", "limit", "of", "how", "bytes", "per_second"])
    for one in found:
        for read in one.reads:
            writer.writerow(
                [one.threads, "read", read.what, read.way, read.num_bytes, read.bytes_per_second]
            )
        for peak in one.peaks:
            writer.writerow(
                [
                    one.threads,
                    peak.isa,
                    peak.factors,
                    peak.instructions,
                    "",
                    peak.products_per_second,
                ]
            )
        if one.phase_seconds is not None:
            writer.writerow([one.threads, "team", "phases", "", "", 1 / one.phase_seconds])
    return text.getvalue().rstrip("\n")


REPORTS: dict[str, Callable[[Sequence[Limits]], str]] = {
    "md": as_markdown,
    "json": as_json,
    "csv": as_csv,
}
