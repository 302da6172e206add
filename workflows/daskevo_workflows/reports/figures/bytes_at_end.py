"""Stored bytes against full copies, with and without retirement, as bars: Figure 10 of paper 000."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from daskevo_plugins.formatting import byte_unit, say_bytes, say_times
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Spread, say_range, spread
from daskevo_workflows.reports.figures.chart import PAGE, Drawing, Sheet, legend_bar, legend_below, say_above, wrapped
from daskevo_workflows.reports.series import RunSeries, cumulative_bytes

KINDS: tuple[tuple[str, bool, Callable[[RunSeries], float | None]], ...] = (
    ("nothing retired", False, lambda run: _last(run, 2)),
    ("nothing retired", True, lambda run: _last(run, 1)),
    ("living models", False, lambda run: run.storage[-1].full_bytes if run.storage else None),
    ("living models", True, lambda run: run.storage[-1].stored_bytes if run.storage else None),
)
"""Which models count (all that were made, or those that weren't retired), whether only what changed is stored, and the
bytes at the end."""


def bytes_at_end(arms: Sequence[Arm], sheet: Sheet) -> Drawing | None:
    """Draw the bytes at the end: as stored and as full copies, with retirement and as if nothing had been retired."""
    found = {
        (arm.label, i): spread(count(run) for run in arm.runs) for arm in arms for i, (_, _, count) in enumerate(KINDS)
    }
    known = [figure for figure in found.values() if figure is not None]
    if not any(one.middle for one in known):
        return None
    scale, unit = byte_unit(max(one.high for one in known))
    narrow = sheet.width_in < PAGE.width_in
    columns = min(len(arms), 2 if narrow else 3)
    rows = math.ceil(len(arms) / columns)
    height_in = 0.3 * sheet.width_in + 1.3 + (rows - 1) * (2.0 if narrow else 3.0)
    figure = Figure(figsize=(sheet.width_in, height_in), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, sharey=True).flat)
    for panel, arm in zip(panels, arms, strict=False):
        _draw(panel, [found[arm.label, i] for i in range(len(KINDS))], scale, sheet)
        if len(arms) > 1:
            panel.set_xlabel(wrapped(arm.label, (sheet.width_in - 0.6) / columns, sheet.font))
    # Empty places of the last row.
    for panel in panels[len(arms) :]:
        panel.remove()
    # Bars of the panels have no labels: each of them would be an entry.
    legend_bar(panels[0], "full copies", d.ORANGE, "////")
    legend_bar(panels[0], "stored (only what changed)", d.BLUE)
    panels[0].set_ylim(0, 1.15 * max(one.high for one in known) / scale)  # shared by all
    for panel in panels[::columns]:
        panel.set_ylabel(f"tensor bytes ({unit})")
    legend_below(figure, panels[:1])
    return Drawing(
        "space",
        "Storage space",
        "Tensor bytes at the end of the search: of full copies of its models, and as they are stored; of all models "
        "that it made, and of those that were not retired. Over the bars of what is stored: how many times less it is"
        f"{say_range(arms, 'bars')}.",
        " ".join(_words(arm.label, [found[arm.label, i] for i in range(len(KINDS))]) for arm in arms),
        figure,
    )


def _draw(panel: Any, amounts: Sequence[Spread | None], scale: float, sheet: Sheet) -> None:
    for i, (amount, (_, stored, _)) in enumerate(zip(amounts, KINDS, strict=True)):
        if amount is None:
            continue
        at = (i // 2) + (0.2 if stored else -0.2)
        colour, hatch = (d.BLUE, "") if stored else (d.ORANGE, "////")
        panel.bar([at], [amount.middle / scale], 0.38, color=colour, hatch=hatch, edgecolor=d.PAPER, lw=0.5)
        if amount.runs > 1:
            panel.vlines(at, amount.low / scale, amount.high / scale, color=d.INK, lw=1.0)
        # In KINDS the full copies come before what is stored of the same models.
        full = amounts[i - 1] if stored else None
        if full is not None and amount.middle:
            # The ratio of two medians, and not the median of ratios: it is of the bars that are seen.
            say_above(panel, say_times(full.middle / amount.middle), at, amount.high / scale, 0.8 * sheet.font)
    panel.set_xticks([0, 1], [kind.replace(" ", "\n") for kind, stored, _ in KINDS if stored])
    panel.set_xlim(-0.6, 1.6)
    panel.grid(visible=False, axis="x")


def _last(run: RunSeries, column: int) -> float | None:
    rows = cumulative_bytes(run)
    return rows[-1][column] if rows else None


def _words(label: str, amounts: Sequence[Spread | None]) -> str:
    all_full, all_stored, full, stored = (None if amount is None else amount.middle for amount in amounts)
    return (
        f"{label}: nothing retired {say_bytes(all_stored)} instead of {say_bytes(all_full)}; living models "
        f"{say_bytes(stored)} instead of {say_bytes(full)}."
    )
