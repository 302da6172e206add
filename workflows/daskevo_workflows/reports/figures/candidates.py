"""Quality of all candidates over time, arms in one panel: Figure 6 of paper 000."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from daskevo_plugins.formatting import plain, say_count, say_quality, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Moment, curve_of, over_time, say_range
from daskevo_workflows.reports.figures.chart import (
    PAGE,
    RUN_COLOURS,
    WINDOW,
    Drawing,
    Sheet,
    draw_moments,
    from_zero,
    legend_below,
    limit_to_most,
    panels_of,
    wrapped,
)
from daskevo_workflows.reports.series import mean, median, moving_mean, running_best


def candidates(arms: Sequence[Arm], sheet: Sheet) -> Drawing | None:
    """Draw every evaluation's quality over running time, the moving mean and the best so far of each arm.

    Of several runs in an arm the lines are medians, and the range is shaded.
    """
    scored = [e for arm in arms for run in arm.runs for e in run.scored]
    if not scored:
        return None
    objective = arms[0].runs[0].objective
    scale, unit = time_unit(max(e.ended_s or 0.0 for e in scored))
    # The axes have 0.28 of the width; the rest is for labels and legend, whose text does not shrink with it.
    figure, (panel,) = panels_of(sheet.width_in, 0.28 * sheet.width_in + 1.75)
    for arm, (colour, line, mark) in zip(arms, RUN_COLOURS, strict=False):
        _draw_marks(panel, arm, scale, colour, mark, many=len(scored) >= d.RASTER_FROM)
        for make, width, style in ((moving, 1.8, line), (lambda run: running_best(run, objective), 0.9, line)):
            moments = lines(arm, make)
            if moments:
                draw_moments(panel, arm, moments, scale, color=colour, lw=width, ls=style)
        # One entry of the legend for marks and lines of an arm: each by itself would make three.
        panel.plot([], [], color=colour, ls=line, lw=1.8, marker=mark, ms=3.5, label=arm.label)
    panel.plot([], [], color=d.INK, lw=1.8, label=f"mean of the last {WINDOW}")
    panel.plot([], [], color=d.INK, lw=0.9, label="best so far")
    panel.set_xlabel(f"running time ({unit})")
    metric = plain(objective.metric, 60)
    direction = f"({'larger' if objective.direction == 'max' else 'smaller'} is better)"
    height_in = 0.28 * sheet.width_in + 0.45
    # In a column the label takes two lines, because one would be longer than the axis.
    both = f"{wrapped(metric, height_in, sheet.font)}{' ' if sheet.width_in >= PAGE.width_in else chr(10)}{direction}"
    panel.set_ylabel(both if len(metric) < 36 else wrapped(metric, height_in, sheet.font))
    limit_to_most(panel, [e.quality or 0.0 for e in scored])
    from_zero([panel])
    legend_below(figure, [panel])
    return Drawing(
        "quality",
        "Quality over time",
        f"Quality ({plain(objective.metric, 60)}) of each evaluation when it ended; thick: the mean of the last "
        f"{WINDOW}; thin: the best so far{say_range(arms, 'lines')}.",
        " ".join(say_arm(arm) for arm in arms),
        figure,
    )


def moving(qualities: list[float]) -> list[float]:
    return moving_mean(qualities, WINDOW)


def lines(arm: Arm, make: Callable[[list[float]], list[float]]) -> list[Moment]:
    """Return a curve of each run in one, until the run of median length has ended."""
    curves = [curve_of(run, make) for run in arm.runs]
    until = median([curve[-1][0] for curve in curves if curve])
    # Further on most runs have ended, and a median would only be of the values that they ended with.
    return [] if until is None else over_time(curves, until)


def _draw_marks(panel: Any, arm: Arm, scale: float, colour: str, mark: str, *, many: bool) -> None:
    times = [(e.ended_s or 0.0) / scale for run in arm.runs for e in run.scored]
    qualities = [e.quality for run in arm.runs for e in run.scored]
    # Smaller and paler where they are many and lie on each other.
    size, alpha = (3.0, 0.45) if len(times) < 150 else (2.0, 0.3)
    panel.plot(times, qualities, mark, ms=size, mew=0, color=colour, alpha=alpha, rasterized=many)


def say_arm(arm: Arm) -> str:
    """Say how many evaluations an arm has, the best and the mean quality; of several runs the medians."""
    best = [run.best(1)[0].quality or 0.0 for run in arm.runs if run.scored]
    means = [mean([e.quality or 0.0 for e in run.scored]) or 0.0 for run in arm.runs if run.scored]
    if not best:
        return f"{arm.label}: no evaluation has a quality."
    counts = _say_counts([len(run.scored) for run in arm.runs])
    if len(best) == 1:
        return f"{arm.label}: {counts}, best {say_quality(best[0])}, mean {say_quality(means[0])}."
    return (
        f"{arm.label}: {counts}, median of the bests {say_quality(median(best))} ({say_quality(min(best))} to "
        f"{say_quality(max(best))}), median of the means {say_quality(median(means))}."
    )


def _say_counts(counts: Sequence[int]) -> str:
    each = (
        say_count(counts[0], "evaluation")
        if min(counts) == max(counts)
        else f"{min(counts)} to {max(counts)} evaluations"
    )
    return each if len(counts) == 1 else f"{len(counts)} runs of {each}"
