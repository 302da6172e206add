"""The front of a search with several objectives: what no other evaluation beats, among all that were evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from daskevo.types import Objective
from daskevo_plugins.formatting import plain, say_count, say_quality
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import (
    RUN_COLOURS,
    WIDTH_IN,
    Drawing,
    label_of,
    legend_below,
    mark_size,
    panels_of,
    suffix_of,
)
from daskevo_workflows.reports.series import RunSeries

PANELS = 3
"""Further objectives that are drawn, each against the first; the table has all."""

LOGARITHMIC_FROM = 20
"""Ratio of the largest figure to the smallest from which a linear axis would press the small ones together."""


@d.settings()
def front(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw the first objective over each of the further ones, all evaluations and those of the front."""
    others = runs[0].others
    # Runs of other further objectives have no axis in common.
    if not others or any(run.others != others for run in runs) or not any(run.front for run in runs):
        return None
    shown = others[:PANELS]
    figure, panels = panels_of(WIDTH_IN, 4.2, len(shown), sharey=True)
    for panel, goal in zip(panels, shown, strict=True):
        for run, (colour, line, mark) in zip(runs, RUN_COLOURS, strict=False):
            _draw(panel, run, goal, colour, line, mark, runs)
        values = [e.metrics[goal.metric] for run in runs for e in run.scored if goal.metric in e.metrics]
        panel.set_xlabel(f"{_name(goal)}{_scale(panel, values)}")
    panels[0].set_ylabel(_name(runs[0].objective))
    legend_below(figure, panels)
    drawn = f" Of {len(others)} further objectives the first {len(shown)} are drawn." if len(others) > PANELS else ""
    return Drawing(
        "front",
        "The front",
        "Each evaluation by its objectives. On the front are those that no other beats in one without being worse "
        f"in another.{drawn}",
        " ".join(_words(run) for run in runs),
        figure,
    )


def _draw(
    panel: Any, run: RunSeries, goal: Objective, colour: str, line: Any, mark: str, runs: Sequence[RunSeries]
) -> None:
    every = [e for e in run.scored if goal.metric in e.metrics]
    best = sorted(run.front, key=lambda e: e.metrics[goal.metric])
    suffix = suffix_of(run, runs)
    panel.plot(
        [e.metrics[goal.metric] for e in every],
        [e.quality for e in every],
        mark,
        ms=mark_size(len(every)),
        # Of one run the front stands out by its colour; of several, colours tell runs apart.
        color=d.FAINT if len(runs) == 1 else colour,
        alpha=0.6 if len(runs) == 1 else 0.35,
        mew=0,
        label=f"each evaluation{suffix}",
        rasterized=len(every) >= d.RASTER_FROM,
    )
    panel.plot(
        [e.metrics[goal.metric] for e in best],
        [e.quality for e in best],
        color=colour,
        # Between two of them the better one's quality is what can be had; with more objectives there is no such line.
        ls=line if len(run.others) == 1 else "none",
        drawstyle="steps-post" if goal.direction == "min" else "steps-pre",
        lw=1.4,
        marker=mark,
        ms=6.5,
        label=f"the front{suffix}",
    )


def _scale(panel: Any, values: Sequence[float]) -> str:
    """Scale the x axis as the values ask for; return what is to be said of it."""
    if values and min(values) > 0 and max(values) > LOGARITHMIC_FROM * min(values):
        d.logarithmic(panel.xaxis, say_quality)
        return ", logarithmic"
    panel.xaxis.set_major_locator(MaxNLocator(5))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: say_quality(value)))
    return ""


def _name(goal: Objective) -> str:
    return f"{plain(goal.metric, 60)} ({'larger' if goal.direction == 'max' else 'smaller'} is better)"


def _words(run: RunSeries) -> str:
    if not run.front:
        return f"{label_of(run)}: nothing on the front."
    other = run.others[0].metric
    first, last = (
        f"{say_quality(e.quality)} with {plain(other, 40)} {say_quality(e.metrics[other])}"
        for e in (run.front[0], run.front[-1])
    )
    return (
        f"{label_of(run)}: {say_count(len(run.front), 'model')} on the front, {plain(run.objective.metric, 40)} from "
        f"{first} to {last}."
    )
