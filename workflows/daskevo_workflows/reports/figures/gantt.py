"""A Gantt chart of evaluations per worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from daskevo_plugins.formatting import plain, say_count, say_share, time_unit
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import (
    PAGE,
    Drawing,
    Sheet,
    label_of,
    legend_below,
    title_panel,
)
from daskevo_workflows.reports.series import (
    EvaluationRow,
    RunSeries,
)

KINDS: tuple[tuple[str, Callable[[EvaluationRow], bool], str, str | None], ...] = (
    ("prefix inherited", lambda e: e.transferred, d.BLUE, None),
    ("from scratch", lambda e: e.status != "failed" and not e.transferred, d.ORANGE, "//"),
    ("failed", lambda e: e.status == "failed", d.VERMILION, "xxx"),
)
"""What a bar may be, and how it is drawn."""

MOST_NAMED = 24
"""Trainers that are named at the axis of one panel, at most."""


def tasks(runs: Sequence[RunSeries], sheet: Sheet) -> Drawing | None:
    """Draw start and end of each evaluation on each trainer, a panel per run, as Figure 9 of paper 000."""
    shown = [run for run in runs if _bars(run)]
    if not shown:
        return None
    scale, unit = time_unit(max(e.ended_s or 0.0 for run in shown for e in _bars(run)))
    rows = [sorted({e.worker or "?" for e in _bars(run)}, key=_natural) for run in shown]
    narrow = sheet.width_in < PAGE.width_in
    heights = [min(max(len(names) * 0.3, 0.6), 2.0 if narrow else 6.0) for names in rows]
    figure = Figure(figsize=(sheet.width_in, sum(heights) + 0.75 * len(shown) + 0.5), layout="constrained")
    panels = list(figure.subplots(len(shown), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0])
    for panel, run, names in zip(panels, shown, rows, strict=True):
        _draw(panel, _bars(run), {name: i for i, name in enumerate(names)}, scale)
        every = math.ceil(len(names) / MOST_NAMED)
        # Names of a large cluster would take half of a column.
        numbered = narrow and max(map(len, names)) > 10
        ticks = range(0, len(names), every)
        panel.set_yticks(ticks, [str(i + 1) if numbered else plain(names[i], 24) for i in ticks])
        # The first trainer on top.
        panel.set_ylim(len(names) - 0.4, -0.6)
        panel.grid(visible=False, axis="y")
        panel.set_ylabel("trainer")
        title_panel(panel, run, shown)
    panels[0].set_xlim(0, 1.01 * max(e.ended_s or 0.0 for run in shown for e in _bars(run)) / scale)  # shared by all
    panels[-1].set_xlabel(f"running time ({unit})")
    legend_below(figure, panels)
    return Drawing(
        "gantt",
        "Evaluations per worker",
        "Each bar is one evaluation on a trainer, from its start to its report.",
        " ".join(_words(run, len(names)) for run, names in zip(shown, rows, strict=True)),
        figure,
    )


def _draw(panel: Any, bars: Sequence[EvaluationRow], place: Mapping[str, int], scale: float) -> None:
    for kind, belongs, colour, hatch in KINDS:
        chosen = [e for e in bars if belongs(e)]
        for name, row in place.items():
            spans = [
                ((e.started_s or 0.0) / scale, ((e.ended_s or 0.0) - (e.started_s or 0.0)) / scale)
                for e in chosen
                if (e.worker or "?") == name
            ]
            panel.broken_barh(
                spans,
                (row - 0.38, 0.76),
                facecolors=colour,
                edgecolors=d.PAPER,
                # The gap between bars would hide those that are narrower than it.
                linewidth=0.5 if len(bars) < 400 else 0.1,
                hatch=hatch,
                rasterized=len(bars) >= d.RASTER_FROM,
            )
        if chosen:
            # For the legend, outside what is seen: the patches of `broken_barh` are a collection for each trainer.
            panel.add_patch(Rectangle((0, -9), 0, 0, facecolor=colour, edgecolor=d.PAPER, hatch=hatch, label=kind))


def _words(run: RunSeries, trainers: int) -> str:
    return (
        f"{label_of(run)}: {say_count(len(_bars(run)), 'evaluation')} on {say_count(trainers, 'trainer')}, "
        f"busy {say_share(_busy(run, trainers))} of the time."
    )


def _bars(run: RunSeries) -> list[EvaluationRow]:
    return [e for e in run.evaluations if e.started_s is not None and e.ended_s is not None and e.ended_s > e.started_s]


def _busy(run: RunSeries, workers: int) -> float:
    bars = _bars(run)
    end = max(e.ended_s or 0.0 for e in bars)
    return math.fsum((e.ended_s or 0.0) - (e.started_s or 0.0) for e in bars) / (end * workers) if end else 0.0


def _natural(name: str) -> tuple[str, int]:
    head = name.rstrip("0123456789")
    # trainer-2 before trainer-10.
    return head, int(name[len(head) :] or -1)
