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
    WINDOW,
    Drawing,
    from_zero,
    label_of,
    legend_below,
    limit_to_most,
    mark_size,
    panels_of,
    title_panel,
)
from daskevo_workflows.reports.series import (
    RunSeries,
    mean,
    moving_mean,
    running_best,
)


@d.settings()
def quality_over_time(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw every evaluation's quality, the running best and the moving mean over running time; runs side by side."""
    if not any(run.scored for run in runs):
        return None
    metric = plain(runs[0].objective.metric, 60)
    scale, unit = time_unit(max(e.ended_s or 0.0 for run in runs for e in run.scored))
    figure, panels = panels_of(runs, height_in=3.6, shared=True)
    for panel, run in zip(panels, runs, strict=True):
        times = [(e.ended_s or 0.0) / scale for e in run.scored]
        qualities = [e.quality or 0.0 for e in run.scored]
        marks = len(times) >= d.RASTER_FROM
        panel.plot(
            times,
            qualities,
            "o",
            ms=mark_size(len(times)),
            color=d.FAINT,
            alpha=0.75,
            label="each evaluation",
            mew=0,
            rasterized=marks,
        )
        best = running_best(qualities, run.objective)
        panel.step(
            times,
            best,
            where="post",
            color=d.BLUE,
            lw=2.0,
            label="best so far",
            marker="_" if len(times) == 1 else None,
        )
        panel.plot(
            times,
            moving_mean(qualities, WINDOW),
            color=d.VERMILION,
            lw=1.6,
            ls=(0, (5, 1.5)),
            label=f"mean of the last {WINDOW}",
        )
        for other in runs:
            if other is not run and other.scored:
                other_best = running_best([e.quality or 0.0 for e in other.scored], other.objective)
                panel.step(
                    [(e.ended_s or 0.0) / scale for e in other.scored],
                    other_best,
                    where="post",
                    color=d.GREEN,
                    lw=1.3,
                    ls=":",
                    label="best so far of the other run",
                )
        panel.set_xlabel(f"running time ({unit})")
        title_panel(panel, run, runs)
    from_zero(panels)
    panels[0].set_ylabel(f"{metric} ({'larger' if runs[0].objective.direction == 'max' else 'smaller'} is better)")
    limit_to_most(panels[0], [e.quality or 0.0 for run in runs for e in run.scored])
    legend_below(figure, panels)
    words = " ".join(_quality_words(run) for run in runs)
    return Drawing(
        "quality",
        "Quality over time",
        f"Quality ({metric}) of each evaluation when it ended, the best so far, and the mean of the last {WINDOW}.",
        words,
        figure,
    )


@d.settings()
def best_by_evaluations(arms: Sequence[Arm]) -> Drawing | None:
    """Draw the best so far over the number of evaluations, all arms in one panel: free of how fast machines were."""
    runs = [run for arm in arms for run in arm.runs]
    if len(arms) < 2 or not any(run.scored for run in runs):
        return None
    figure, (panel,) = panels_of(runs[:1], height_in=3.0)
    for arm, (colour, line, _) in zip(arms, RUN_COLOURS, strict=False):
        best = _by_count(arm, lambda qualities: running_best(qualities, runs[0].objective))
        mean_so_far = _by_count(arm, lambda qualities: moving_mean(qualities, WINDOW))
        name, counts = plain(arm.label, 60), [moment.at_s for moment in best]
        middle = [moment.middle for moment in best]
        panel.step(counts, middle, where="post", color=colour, ls=line, lw=2, label=f"best so far, {name}")
        if len(arm.runs) > 1:
            low, high = [moment.low for moment in best], [moment.high for moment in best]
            panel.fill_between(counts, low, high, step="post", color=colour, alpha=0.18, lw=0)
        panel.plot(
            [moment.at_s for moment in mean_so_far],
            [moment.middle for moment in mean_so_far],
            color=colour,
            ls=line,
            lw=1,
            alpha=0.6,
            label=f"mean of the last {WINDOW}, {name}",
        )
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


def _quality_words(run: RunSeries) -> str:
    if not run.scored:
        return f"{label_of(run)}: no evaluation has a quality."
    qualities = [e.quality or 0.0 for e in run.scored]
    best = running_best(qualities, run.objective)
    return (
        f"{label_of(run)}: {say_count(len(qualities), 'evaluation')}, from {say_quality(qualities[0])} "
        f"to a best of {say_quality(best[-1])}, mean {say_quality(mean(qualities))}."
    )
