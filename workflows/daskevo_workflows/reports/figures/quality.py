"""Quality over time and by number of evaluations: each evaluation, the best so far, the moving mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.ticker import MaxNLocator

from daskevo_plugins.formatting import plain, say_count, say_quality, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Moment, over_time, say_range
from daskevo_workflows.reports.figures.candidates import say_arm
from daskevo_workflows.reports.figures.chart import (
    RUN_COLOURS,
    WIDTH_IN,
    WINDOW,
    Drawing,
    draw_moments,
    from_zero,
    label_of,
    legend_below,
    limit_to_most,
    mark_size,
    panels_of,
)
from daskevo_workflows.reports.series import (
    RunSeries,
    mean,
    moving_mean,
    running_best,
)


@d.settings()
def quality_over_time(run: RunSeries) -> Drawing | None:
    """Draw every evaluation's quality, the running best and the moving mean over running time."""
    if not run.scored:
        return None
    metric = plain(run.objective.metric, 60)
    scale, unit = time_unit(max(e.ended_s or 0.0 for e in run.scored))
    times = [(e.ended_s or 0.0) / scale for e in run.scored]
    qualities = [e.quality or 0.0 for e in run.scored]
    best, means = running_best(qualities, run.objective), moving_mean(qualities, WINDOW)
    figure, (panel,) = panels_of(WIDTH_IN, 4.0)
    panel.plot(
        times,
        qualities,
        "o",
        ms=mark_size(len(times)),
        color=d.FAINT,
        alpha=0.75,
        label="each evaluation",
        mew=0,
        rasterized=len(times) >= d.RASTER_FROM,
    )
    # A step that begins and ends at the same time is not seen: one evaluation gets a mark.
    marker = "_" if len(times) == 1 else None
    panel.step(times, best, where="post", color=d.BLUE, lw=2.0, label="best so far", marker=marker)
    panel.plot(times, means, color=d.VERMILION, lw=1.6, ls=(0, (5, 1.5)), label=f"mean of the last {WINDOW}")
    panel.set_xlabel(f"running time ({unit})")
    from_zero([panel])
    panel.set_ylabel(f"{metric} ({'larger' if run.objective.direction == 'max' else 'smaller'} is better)")
    limit_to_most(panel, qualities)
    legend_below(figure, [panel])
    return Drawing(
        "quality",
        "Quality over time",
        f"Quality ({metric}) of each evaluation when it ended, the best so far, and the mean of the last {WINDOW}.",
        f"{label_of(run)}: {say_count(len(qualities), 'evaluation')}, from {say_quality(qualities[0])} "
        f"to a best of {say_quality(best[-1])}, mean {say_quality(mean(qualities))}.",
        figure,
    )


@d.settings()
def best_by_evaluations(arms: Sequence[Arm]) -> Drawing | None:
    """Draw the best so far over the number of evaluations, all arms in one panel: free of how fast machines were."""
    runs = [run for arm in arms for run in arm.runs]
    # One arm by evaluations is the same curve as over time, stretched.
    if len(arms) < 2 or not any(run.scored for run in runs):
        return None
    figure, (panel,) = panels_of(WIDTH_IN, 3.4)
    for arm, (colour, line, _) in zip(arms, RUN_COLOURS, strict=False):
        best = _by_count(arm, lambda qualities: running_best(qualities, runs[0].objective))
        means = _by_count(arm, lambda qualities: moving_mean(qualities, WINDOW))
        counts, middle = [moment.at_s for moment in means], [moment.middle for moment in means]
        name = plain(arm.label, 60)
        draw_moments(panel, arm, best, 1.0, color=colour, ls=line, lw=2, label=f"best so far, {name}")
        label = f"mean of the last {WINDOW}, {name}"
        panel.plot(counts, middle, color=colour, ls=line, lw=1, alpha=0.6, label=label)
    panel.set_xlabel("evaluations (finished)")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    from_zero([panel])
    panel.set_ylabel(plain(runs[0].objective.metric, 60))
    legend_below(figure, [panel])
    return Drawing(
        "by-evaluations",
        "Quality by number of evaluations",
        f"The same counted in evaluations instead of time{say_range(arms, 'lines')}.",
        " ".join(say_arm(arm) for arm in arms),
        figure,
    )


def _by_count(arm: Arm, make: Callable[[list[float]], list[float]]) -> list[Moment]:
    curves = [
        [(float(i), value) for i, value in enumerate(make([e.quality or 0.0 for e in run.scored]), start=1)]
        for run in arm.runs
    ]
    return over_time(curves, max((float(len(curve)) for curve in curves), default=0.0))
