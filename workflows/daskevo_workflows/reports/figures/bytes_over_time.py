"""Stored bytes over time against full copies, with and without retirement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from daskevo_plugins.formatting import byte_unit, say_bytes, say_count, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import (
    WIDTH_IN,
    Drawing,
    from_zero,
    label_of,
    legend_below,
    panels_of,
    title_panel,
)
from daskevo_workflows.reports.series import RunSeries, cumulative_bytes

LOGARITHMIC_FROM = 12
"""Ratio of the highest curve's end to the lowest one's from which a linear axis would press the low ones together."""


class Curve(NamedTuple):
    """(moment in s, bytes) in order of time, and how they are drawn."""

    name: str
    points: list[tuple[float, int]]
    colour: str
    line: Any
    width: float


@d.settings()
def bytes_over_time(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw stored bytes against full copies, as they were with retirement and as they would be without."""
    curves = [_curves(run) for run in runs]
    drawn = [curve for group in curves for curve in group]
    if not any(count for curve in drawn for _, count in curve.points):
        return None
    scale, unit = byte_unit(max(count for curve in drawn for _, count in curve.points))
    time_scale, time_name = time_unit(max(at for curve in drawn for at, _ in curve.points))
    # By their ends: curves begin near 0, where any two of them differ by a large factor.
    ends = [curve.points[-1][1] for curve in drawn if curve.points[-1][1] > 0]
    logarithmic = bool(ends) and max(ends) > LOGARITHMIC_FROM * min(ends)
    figure, panels = panels_of(WIDTH_IN, 3.8, len(runs), sharex=True, sharey=True)
    for panel, run, group in zip(panels, runs, curves, strict=True):
        for curve in group:
            panel.step(
                [at / time_scale for at, _ in curve.points],
                [count / scale for _, count in curve.points],
                where="post",
                color=curve.colour,
                ls=curve.line,
                lw=curve.width,
                label=curve.name,
                # A step of one point has no length.
                marker="o" if len(curve.points) == 1 else None,
            )
        if logarithmic:
            d.logarithmic(panel.yaxis)
        else:
            # A logarithmic axis has no 0.
            panel.set_ylim(bottom=0)
        panel.set_xlabel(f"running time ({time_name})")
        title_panel(panel, run, runs)
    from_zero(panels)
    panels[0].set_ylabel(f"tensor bytes ({unit}{chr(10) + 'logarithmic' if logarithmic else ''})")
    legend_below(figure, panels)
    return Drawing(
        "bytes",
        "Stored bytes over time",
        "Tensor bytes in the repository (solid), what full copies of the same models would take, and both as if no "
        "model had ever been retired.",
        " ".join(_words(run) for run in runs),
        figure,
    )


def _curves(run: RunSeries) -> list[Curve]:
    rows = cumulative_bytes(run)
    curves = [
        Curve("full copies, nothing retired", [(at, full) for at, _, full in rows], d.VERMILION, (0, (5, 1.5)), 1.4),
        Curve("full copies of the living", [(s.at_s, s.full_bytes) for s in run.storage], d.ORANGE, "-.", 1.4),
        Curve("stored, nothing retired", [(at, own) for at, own, _ in rows], d.SKY, (0, (3, 1, 1, 1)), 1.8),
        Curve("stored", [(s.at_s, s.stored_bytes) for s in run.storage], d.BLUE, "-", 2.2),
    ]
    return [curve for curve in curves if curve.points]


def _words(run: RunSeries) -> str:
    rows, parts = cumulative_bytes(run), []
    if run.storage:
        last = run.storage[-1]
        parts.append(
            f"{say_bytes(last.stored_bytes)} stored for {say_count(last.live_models, 'living model')}, "
            f"{say_bytes(last.full_bytes)} as full copies"
        )
    if rows:
        parts.append(f"without retirement {say_bytes(rows[-1][1])} stored, {say_bytes(rows[-1][2])} as full copies")
        if run.in_parts:
            # They are stored beside their models, and belong to no model's bytes.
            parts[-1] += ", without the states from which trainings go on"
    return f"{label_of(run)}: {'; '.join(parts) or 'no bytes recorded'}."
