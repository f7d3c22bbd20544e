"""The table of a comparison: medians, spreads, ratios round by round, and where we lose.

Ratios are ours over theirs in speed, so that more is better for us everywhere. Knows no process.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pyrite.cli.markdown import table
from records import Record, Records, Subject

HEAD = ["model", "work", "engine", "unit", "median (range)", "default is", "fast is", "of limit"]
OURS = ("pyrite default", "pyrite fast")


@dataclass(frozen=True)
class Line:
    """One engine's runs of one subject, by round."""

    subject: Subject
    unit: str
    engine: str
    records: list[Record]

    @property
    def values(self) -> dict[int, float]:
        return {one.round: one.value for one in self.records if one.value is not None}

    @property
    def why(self) -> str:
        return next((one.why for one in reversed(self.records) if one.why), "")


def ratios(ours: Line, theirs: Line) -> list[float]:
    """How many times as fast ours is, round by round."""
    pairs = [
        (ours.values[number], theirs.values[number])
        for number in sorted(ours.values.keys() & theirs.values.keys())
    ]
    return [b / a if ours.unit == "s" else a / b for a, b in pairs]


def lines_of(
    records: Records, subjects: Sequence[tuple[Subject, str]], engines: Sequence[str]
) -> list[list[Line]]:
    """A group of lines for each (subject, unit), ours first; without those never tried."""
    groups = []
    for subject, unit in subjects:
        found = [Line(subject, unit, name, records.find(subject, name)) for name in engines]
        groups.append([line for line in found if line.records])
    return [group for group in groups if group]


def comparison_table(groups: Sequence[Sequence[Line]]) -> str:
    """With a column of numbers that name the commands below, and what could not be measured."""
    commands: dict[str, int] = {}
    rows = []
    for group in groups:
        ours = {line.engine: line for line in group if line.engine in OURS}
        for line in group:
            last = line.records[-1]
            told = f"{last.version}: {last.command}"
            number = commands.setdefault(told, len(commands) + 1)
            rows.append([*cells(line, ours), str(number)])
    parts = [table([*HEAD, "run"], rows, right=(*HEAD[4:8], "run"))]
    parts.append("\n".join(f"[{number}] {told}" for told, number in commands.items()))
    parts.append(losses_text(groups))
    return "\n\n".join(parts)


def cells(line: Line, ours: dict[str, Line]) -> list[str]:
    values = list(line.values.values())
    shares = [one.of_limit for one in line.records if one.of_limit is not None]
    limit = line.records[-1].limit
    against = [
        "" if line.engine in OURS or name not in ours else spread(ratios(ours[name], line), 2)
        for name in OURS
    ]
    return [
        line.subject.model,
        line.subject.work,
        line.engine,
        line.unit,
        spread(values) if values else f"- ({line.why})",
        *against,
        f"{statistics.median(shares):.0%} of {limit}" if shares else "",
    ]


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median and range; of as many digits as tell something."""
    if not values:
        return ""
    middle = statistics.median(values)
    digits = digits or (1 if middle >= 10 else 3)
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return f"{middle:.{digits}f}" + (f" ({low} to {high})" if len(values) > 1 else "")


def losses_text(groups: Sequence[Sequence[Line]]) -> str:
    found = [
        f"- {theirs.subject.model}, {theirs.subject.work}: {mine.engine} is "
        f"{statistics.median(several):.2f} times {theirs.engine}"
        for group in groups
        for mine in group
        if mine.engine in OURS
        for theirs in group
        if theirs.engine not in OURS
        and (several := ratios(mine, theirs))
        and statistics.median(several) < 1
    ]
    return (
        "\n".join(["Where we lose:", *found])
        if found
        else "Where we lose: nowhere, of what was measured."
    )
