"""What a benchmark hands back: tables for people, a value for programs, a plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daskevo.types import JSON
from daskevo_workflows.measurements.tables import FigureTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Outcome:
    """The result of one benchmark.

    Parameters
    ----------
    machine:
        :func:`~daskevo_workflows.measurements.machine.machine_line` of the run.
    tables:
        As they go to stdout and into the documentation.
    value:
        What ``--json`` prints, of exactly the promised shape.
    draw:
        Fills a figure.
    """

    machine: str
    tables: Sequence[FigureTable]
    value: JSON
    draw: Callable[[Figure], None]

    def __str__(self) -> str:
        return "\n\n".join([self.machine, *map(str, self.tables)])
