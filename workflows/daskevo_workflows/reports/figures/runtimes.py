"""End-to-end running time by number of trainers, with the repository's share: Figure 8 of paper 000."""

from __future__ import annotations

from collections.abc import Sequence

from daskevo_plugins.formatting import say_seconds, say_share, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Spread, say_range, spread
from daskevo_workflows.reports.figures.chart import (
    HATCHES,
    RUN_COLOURS,
    Drawing,
    Sheet,
    legend_bar,
    legend_below,
    panels_of,
    say_above,
)
from daskevo_workflows.reports.series import RunSeries


def runtimes(arms: Sequence[Arm], sheet: Sheet) -> Drawing | None:
    """Draw the running time of each arm, in groups by the number of trainers.

    The top of a bar is what each trainer spent with the repository, on average: below it is what the run would have
    taken with a repository that answers at once.
    """
    shown = [arm for arm in arms if any(run.finished and run.runtime_s for run in arm.runs)]
    if not shown:
        return None
    totals = {arm.label: spread(run.runtime_s for run in arm.runs) for arm in shown}
    shares = {arm.label: spread(repository_share(run) for run in arm.runs) for arm in shown}
    scale, unit = time_unit(max(total.high for total in totals.values() if total))
    scales, policies = sorted({arm.trainers for arm in shown}), list(dict.fromkeys(arm.policy for arm in shown))
    figure, (panel,) = panels_of(sheet.width_in, 0.3 * sheet.width_in + 1.2)
    width = 0.8 / len(policies)
    # Bars compare only where the runs evaluated as many candidates: otherwise the numbers are written above.
    unequal = len({len(run.finished) for arm in shown for run in arm.runs}) > 1
    for arm in shown:
        place = policies.index(arm.policy)
        total, share = totals[arm.label], shares[arm.label]
        assert total is not None
        at = scales.index(arm.trainers) + (place - (len(policies) - 1) / 2) * width
        top = total.middle / scale
        # The share is of the trainers' time; the same share of the running time is what waiting for the repository
        # cost.
        cut = top * (share.middle if share else 0.0)
        colour, hatch = RUN_COLOURS[place][0], HATCHES[place]
        is_first = arm is next(one for one in shown if one.policy == arm.policy)
        # matplotlib leaves labels that begin with an underscore out of the legend.
        label = arm.policy if is_first else "_nolegend_"
        panel.bar([at], [top - cut], width * 0.9, color=colour, hatch=hatch, edgecolor=d.PAPER, lw=0.5, label=label)
        panel.bar([at], [cut], width * 0.9, bottom=[top - cut], color=d.INK, edgecolor=d.INK, lw=0.5)
        if total.runs > 1:
            panel.vlines(at, total.low / scale, total.high / scale, color=d.FAINT, lw=1.6, zorder=4)
        words = f"{say_seconds(total.middle)}\n({say_share(share.middle if share else None)})"
        if unequal:
            words = f"{_say_counts(arm)} ev.\n{words}"
        say_above(panel, words, at, total.high / scale, 0.8 * sheet.font)
    legend_bar(panel, "with the repository", d.INK)
    panel.set_xticks(range(len(scales)), [str(count) for count in scales])
    panel.set_xlim(-0.6, len(scales) - 0.4)
    # Room for two lines of words above the highest bar, or three.
    panel.set_ylim(0, (1.4 if unequal else 1.28) * max(total.high for total in totals.values() if total) / scale)
    panel.grid(visible=False, axis="x")
    panel.set_xlabel("trainers")
    panel.set_ylabel(f"running time ({unit})")
    legend_below(figure, [panel])
    return Drawing(
        "runtime",
        "End-to-end running time",
        "Running time of the whole search by the number of trainers; black, and in brackets: what each trainer spent "
        f"with the repository, on average{', ev.: finished evaluations' if unequal else ''}{say_range(shown, 'bars')}.",
        " ".join(_words(arm, totals[arm.label], shares[arm.label]) for arm in shown),
        figure,
    )


def repository_share(run: RunSeries) -> float | None:
    """Return the share of its trainers' time that a run spent with the repository; None if nothing was timed."""
    return run.repository_s / run.evaluation_s if run.evaluation_s else None


def _words(arm: Arm, total: Spread | None, share: Spread | None) -> str:
    return (
        f"{arm.label}: {say_seconds(total.middle if total else None)} for {_say_counts(arm)} evaluations, "
        f"{say_share(share.middle if share else None)} of them with the repository."
    )


def _say_counts(arm: Arm) -> str:
    counts = sorted(len(run.finished) for run in arm.runs)
    return str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
