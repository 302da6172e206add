"""Tables of benchmarks: Markdown that reads well on a terminal and goes into the documentation as it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ABSENT = "–"
"""Cell of what was not measured."""


@dataclass(frozen=True)
class FigureTable:
    """One table.

    Parameters
    ----------
    title:
        What was measured, in which unit.
    head:
        Names of the columns; the first column is text, the others are figures.
    rows:
        Cells as they are shown. # (n_rows, n_columns)
    notes:
        Sentences below: what the rows are, what is absent and why.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        lines = [list(self.head), *map(list, self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.head))]

        def line_of(cells: Sequence[str]) -> str:
            first, *rest = cells
            padded = [
                first.ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)),
            ]
            return f"| {' | '.join(padded)} |"

        rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
        body = [line_of(lines[0]), rule, *map(line_of, lines[1:])]
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([f"**{self.title}**", "", *body, *notes])


def figure(value: float | None, digits: int = 3) -> str:
    """Return a figure with so many significant digits, never in powers of ten.

    Examples
    --------
    >>> figure(0.012345), figure(8.0), figure(1234567.0), figure(None)
    ('0.0123', '8.00', '1,230,000', '–')
    """
    if value is None or not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(places, 0)}f}"
