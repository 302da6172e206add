"""Tables: padded columns for the command line, and Markdown of benchmarks that reads well on a terminal, too."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
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
        head, *body = padded([self.head, *self.rows], right=range(1, len(self.head)))
        first, *rest = map(len, head)
        rule = "|".join(["", "-" * (first + 2), *("-" * (width + 1) + ":" for width in rest), ""])
        head_line, *lines = (f"| {' | '.join(cells)} |" for cells in (head, *body))
        notes = ["", *self.notes] if self.notes else []
        return "\n".join([f"**{self.title}**", "", head_line, rule, *lines, *notes])


def padded(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[list[str]]:
    """Yield rows whose cells are as wide as the widest of their column; columns in `right` are aligned to the right.

    Examples
    --------
    >>> list(padded([("model", "step"), ("a", "1")], right={1}))
    [['model', 'step'], ['a    ', '   1']]
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield [cell.rjust(width) if column in right else cell.ljust(width) for column, (cell, width) in cells]


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
    # Rounded first: 9.996 becomes 10.0, which has a digit more before the point.
    rounded = float(f"{value:.{digits - 1}e}")
    places = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(places, 0)}f}"
