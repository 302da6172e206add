"""Stored bytes against full copies, with and without retirement, as bars: Figure 10 of paper 000."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from daskevo_workflows.reports import drawing as d
from daskevo_workflows.reports.arms import Arm, Spread, say_range, spread
from daskevo_workflows.reports.figures.chart import Sheet, Sketch, legend_bar, legend_below
from daskevo_workflows.reports.series import RunSeries, cumulative_bytes
from daskevo_workflows.words import byte_unit, say_bytes, say_times

KINDS: tuple[tuple[str, bool, Callable[[RunSeries], float | None]], ...] = (
    ("nothing retired", False, lambda run: _last(run, 2)),
    ("nothing retired", True, lambda run: _last(run, 1)),
    ("retired", False, lambda run: run.storage[-1].full_bytes if run.storage else None),
    ("retired", True, lambda run: run.storage[-1].stored_bytes if run.storage else None),
)
"""What happens to models that left the population, whether only what changed is stored, and the bytes at the end."""


def space(arms: Sequence[Arm], sheet: Sheet) -> Sketch | None:
    """Draw the bytes at the end: as stored and as full copies, with retirement and as if nothing had been retired."""
    found = {
        (arm.label, i): spread(count(run) for run in arm.runs) for arm in arms for i, (_, _, count) in enumerate(KINDS)
    }
    known = [figure for figure in found.values() if figure is not None]
    if not any(figure.middle for figure in known):
        return None
    scale, unit = byte_unit(max(figure.high for figure in known))
    figure = Figure(figsize=(sheet.width_in, 0.3 * sheet.width_in + 1.3), layout="constrained")
    panel = figure.subplots()
    ticks: list[float] = []
    for place, arm in enumerate(arms):
        for i, (_, stored, _) in enumerate(KINDS):
            amount = found[arm.label, i]
            at = place * 2.4 + (i // 2) + (0.2 if stored else -0.2)
            if amount is None:
                continue
            colour, hatch = (d.BLUE, "") if stored else (d.ORANGE, "////")
            panel.bar([at], [amount.middle / scale], 0.38, color=colour, hatch=hatch, edgecolor=d.PAPER, lw=0.5)
            if amount.runs > 1:
                panel.vlines(at, amount.low / scale, amount.high / scale, color=d.INK, lw=1.0)
            full = found[arm.label, i - 1] if stored else None
            if full is not None and amount.middle:
                words = say_times(full.middle / amount.middle)
                peak = (at, amount.high / scale)
                panel.annotate(words, peak, (0, 2), textcoords="offset points", ha="center", fontsize=0.8 * sheet.font)
        ticks += [place * 2.4, place * 2.4 + 1]
    legend_bar(panel, "full copies", d.ORANGE, "////")
    legend_bar(panel, "stored (only what changed)", d.BLUE)
    panel.set_xticks(ticks, ["nothing\nretired", "retired"] * len(arms))
    if len(arms) > 1:
        lower = panel.secondary_xaxis(-0.22 if sheet.width_in > 5 else -0.26)
        lower.set_xticks([place * 2.4 + 0.5 for place in range(len(arms))], [arm.label for arm in arms])
        lower.tick_params(length=0)
        lower.spines["bottom"].set_visible(False)
    panel.margins(y=0.12)
    panel.set_ylim(bottom=0)
    panel.grid(visible=False, axis="x")
    panel.set_ylabel(f"tensor bytes ({unit})")
    legend_below(figure, [panel])
    return Sketch(
        "space",
        "Storage space",
        "Tensor bytes at the end of the search: of full copies of its models, and as they are stored; of all models "
        "that it made, and of those that were not retired. Over the bars of what is stored: how many times less it is"
        f"{say_range(arms, 'bars')}.",
        " ".join(_words(arm.label, [found[arm.label, i] for i in range(len(KINDS))]) for arm in arms),
        figure,
    )


def _last(run: RunSeries, column: int) -> float | None:
    rows = cumulative_bytes(run)
    return rows[-1][column] if rows else None


def _words(label: str, amounts: Sequence[Spread | None]) -> str:
    all_full, all_stored, full, stored = (None if amount is None else amount.middle for amount in amounts)
    return (
        f"{label}: nothing retired {say_bytes(all_stored)} instead of {say_bytes(all_full)}; retired "
        f"{say_bytes(stored)} instead of {say_bytes(full)}."
    )
