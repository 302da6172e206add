"""The figures of a report: each takes one or two runs and returns a drawing with its title, caption and description."""

from __future__ import annotations

from collections.abc import Sequence

from daskevo_workflows.reports.figures.chart import Drawing
from daskevo_workflows.reports.figures.front import front
from daskevo_workflows.reports.figures.frozen import frozen_share
from daskevo_workflows.reports.figures.gantt import gantt
from daskevo_workflows.reports.figures.phases import phases
from daskevo_workflows.reports.figures.quality import best_by_evaluations, quality_over_time
from daskevo_workflows.reports.figures.storage import bytes_over_time
from daskevo_workflows.reports.series import RunSeries


def all_figures(runs: Sequence[RunSeries]) -> dict[str, Drawing]:
    """Return every figure that these runs have data for, by name."""
    makers = (front, quality_over_time, best_by_evaluations, gantt, bytes_over_time, frozen_share, phases)
    return {drawing.name: drawing for make in makers if (drawing := make(runs)) is not None}
