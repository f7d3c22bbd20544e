"""A table in Markdown whose columns line up."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> str:
    """`right`: titles of columns that are set to the right."""
    widths = [max(len(line[column]) for line in [head, *rows]) for column in range(len(head))]

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if name in right else text.ljust(width)
            for name, text, width in zip(head, texts, widths, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    rule = [
        "-" * (width - 1) + (":" if name in right else "-")
        for name, width in zip(head, widths, strict=True)
    ]
    return "\n".join([line(head), line(rule), *map(line, rows)])
