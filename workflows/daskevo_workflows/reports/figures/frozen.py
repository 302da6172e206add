"""The share of frozen vertices over time."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import PercentFormatter

from daskevo_plugins.formatting import say_share, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import (
    RUN_COLOURS,
    WIDTH_IN,
    WINDOW,
    Drawing,
    from_zero,
    label_of,
    legend_below,
    mark_size,
    panels_of,
    suffix_of,
)
from daskevo_workflows.reports.series import (
    RunSeries,
    late,
    mean,
    moving_mean,
)


@d.settings()
def frozen_share(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw the share of frozen vertices of each evaluation over time, and its moving mean."""
    chosen = [run for run in runs if any(e.frozen_share is not None and e.ended_s is not None for e in run.finished)]
    if not chosen:
        return None
    scale, unit = time_unit(max(e.ended_s or 0.0 for run in chosen for e in run.finished))
    figure, (panel,) = panels_of(WIDTH_IN, 3.4)
    for run in chosen:
        # By the place among all runs, so that a run has the same colour in every figure.
        colour, line, mark = RUN_COLOURS[list(runs).index(run) % len(RUN_COLOURS)]
        known = [e for e in run.finished if e.frozen_share is not None and e.ended_s is not None]
        times = [(e.ended_s or 0.0) / scale for e in known]
        shares = [e.frozen_share or 0.0 for e in known]
        panel.plot(
            times,
            shares,
            mark,
            ms=mark_size(len(times)),
            mew=0,
            color=colour,
            alpha=0.45,
            label=f"each evaluation{suffix_of(run, chosen)}",
            rasterized=len(times) >= d.RASTER_FROM,
        )
        panel.plot(
            times,
            moving_mean(shares, WINDOW),
            color=colour,
            ls=line,
            lw=2,
            label=f"mean of the last {WINDOW}{suffix_of(run, chosen)}",
        )
    # A little beyond 0 and 1, where most marks lie and would be cut in half.
    panel.set_ylim(-0.03, 1.03)
    panel.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))
    panel.set_ylabel("frozen vertices (% of the model's)")
    panel.set_xlabel(f"running time ({unit})")
    from_zero([panel])
    legend_below(figure, [panel])
    words = " ".join(_words(run) for run in chosen)
    return Drawing(
        "frozen",
        "Share of frozen vertices over time",
        "How much of each candidate was inherited and not trained again.",
        words,
        figure,
    )


def _words(run: RunSeries) -> str:
    end = mean([e.frozen_share or 0.0 for e in late(run)])
    return f"{label_of(run)}: mean {say_share(run.mean_frozen_share)}, in the last quarter {say_share(end)}."
