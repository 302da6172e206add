"""The figures of runs: on the report's page, and as those of paper 000 by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm
from daskevo_workflows.reports.figures.bytes_at_end import bytes_at_end
from daskevo_workflows.reports.figures.bytes_over_time import bytes_over_time
from daskevo_workflows.reports.figures.candidates import candidates
from daskevo_workflows.reports.figures.chart import PAGE, Drawing, Sheet
from daskevo_workflows.reports.figures.front import front
from daskevo_workflows.reports.figures.frozen import frozen_share
from daskevo_workflows.reports.figures.gantt import tasks
from daskevo_workflows.reports.figures.phases import phases
from daskevo_workflows.reports.figures.quality import best_by_evaluations, quality_over_time
from daskevo_workflows.reports.figures.runtimes import runtimes
from daskevo_workflows.reports.figures.targets import time_to_target

Maker = Callable[[Sequence[Arm], Sheet], Drawing | None]

PAPER: tuple[tuple[str, int, Maker], ...] = (
    ("quality", 6, candidates),
    ("time-to-target", 7, time_to_target),
    ("runtime", 8, runtimes),
    ("tasks", 9, lambda arms, sheet: tasks([arm.typical for arm in arms], sheet)),
    ("storage", 10, bytes_at_end),
)
"""Name of each figure's file, the number of the figure in paper 000 that shows the same, and what draws it."""


def all_figures(arms: Sequence[Arm]) -> list[Drawing]:
    """Return a page's figures, in order, that these arms have data for; of several runs of an arm, the typical one."""
    runs = [arm.typical for arm in arms]
    with d.settings(PAGE.font):
        # In matplotlib's settings for pages; each drawing opens them again when it is written.
        found = [front(runs)]
        # Arms and their medians say nothing of one run: it has simpler figures.
        if len(arms) == 1 and len(arms[0].runs) == 1:
            found += [quality_over_time(runs[0]), tasks(runs, PAGE)]
        else:
            found += [candidates(arms, PAGE), best_by_evaluations(arms), time_to_target(arms, PAGE)]
            found += [runtimes(arms, PAGE), tasks(runs, PAGE), bytes_at_end(arms, PAGE)]
        found += [make(runs) for make in (bytes_over_time, frozen_share, phases)]
    return [drawing for drawing in found if drawing is not None]
