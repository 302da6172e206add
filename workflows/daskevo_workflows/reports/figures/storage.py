"""Stored bytes over time against full copies, with and without retirement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daskevo_workflows.reports import drawing as d
from daskevo_workflows.reports.figures.chart import (
    Drawing,
    finish,
    label_of,
    legend_below,
    panels_of,
    title_panel,
)
from daskevo_workflows.reports.series import (
    RunSeries,
    cumulative_bytes,
)
from daskevo_workflows.words import byte_unit, say_bytes, time_unit


def bytes_over_time(runs: Sequence[RunSeries]) -> Drawing | None:
    """Draw stored bytes against full copies, as they were with retirement and as they would be without."""
    if not any(run.storage or cumulative_bytes(run) for run in runs):
        return None
    largest = max(
        [full for run in runs for _, _, full in cumulative_bytes(run)]
        + [s.full_bytes for run in runs for s in run.storage]
        + [1]
    )
    scale, unit = byte_unit(largest)
    moments = [at for run in runs for at, _, _ in cumulative_bytes(run)] + [s.at_s for run in runs for s in run.storage]
    time_scale, time_name = time_unit(max(moments))
    with d.settings():
        figure, panels = panels_of(runs, height_in=3.4, shared=True)
        for panel, run in zip(panels, runs, strict=True):
            rows = cumulative_bytes(run)
            lines: list[tuple[str, list[tuple[float, float]], str, Any, float]] = [
                ("full copies, nothing retired", [(at, full) for at, _, full in rows], d.VERMILION, (0, (5, 1.5)), 1.4),
                ("full copies of the living", [(s.at_s, s.full_bytes) for s in run.storage], d.ORANGE, "-.", 1.4),
                ("stored, nothing retired", [(at, own) for at, own, _ in rows], d.SKY, (0, (3, 1, 1, 1)), 1.8),
                ("stored", [(s.at_s, s.stored_bytes) for s in run.storage], d.BLUE, "-", 2.2),
            ]
            for label, points, colour, line, width in lines:
                if points:
                    xs, ys = zip(*points, strict=True)
                    panel.step(
                        [x / time_scale for x in xs],
                        [y / scale for y in ys],
                        where="post",
                        color=colour,
                        ls=line,
                        lw=width,
                        label=label,
                        marker="o" if len(points) == 1 else None,
                    )
            panel.set_xlabel(f"running time ({time_name})")
            panel.set_ylim(bottom=0)
            title_panel(panel, run, runs)
        panels[0].set_ylabel(f"tensor bytes ({unit})")
        legend_below(figure, panels)
        return finish(
            figure,
            "bytes",
            "Stored bytes over time",
            "Tensor bytes in the repository (solid), what full copies of the same models would take, and both as if no "
            "model had ever been retired.",
            " ".join(_bytes_words(run) for run in runs),
        )


def _bytes_words(run: RunSeries) -> str:
    rows, parts = cumulative_bytes(run), []
    if run.storage:
        last = run.storage[-1]
        parts.append(
            f"{say_bytes(last.stored_bytes)} stored for {last.live_models} living models, "
            f"{say_bytes(last.full_bytes)} as full copies"
        )
    if rows:
        parts.append(f"without retirement {say_bytes(rows[-1][1])} stored, {say_bytes(rows[-1][2])} as full copies")
    return f"{label_of(run)}: {'; '.join(parts) or 'no bytes recorded'}."
