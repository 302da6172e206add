"""What all figures of a report share: size, panels, legend, names of runs, and a drawing with its words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from daskevo_plugins.formatting import plain
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import Arm, Moment
from daskevo_workflows.reports.series import RunSeries

WIDTH_IN = 9.0
"""Width of every figure, in inches: fills the page, readable on paper."""

WINDOW = 20
"""Evaluations that a moving mean looks back on."""

RUN_COLOURS = (
    (d.BLUE, "-", "o"),
    (d.VERMILION, (0, (5, 1.5)), "s"),
    (d.GREEN, "-.", "^"),
    (d.PURPLE, ":", "D"),
    (d.ORANGE, (0, (7, 1.5, 1, 1.5)), "v"),
    (d.SKY, (0, (2, 1)), "P"),
)
"""Colour, line and mark of each run or arm: told apart without colour too."""

HATCHES = ("", "////", "\\\\\\\\", "xxxx", "....", "--")
"""Hatch of the bars of each arm."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a figure is drawn for.

    Parameters
    ----------
    width_in:
        In inches.
    font:
        Size of text, in points.
    """

    width_in: float
    font: float


PAGE = Sheet(WIDTH_IN, 10.0)
COLUMN = Sheet(3.4, 8.0)
"""One column of a paper."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its words, not yet in any format: made and written within :func:`svg.settings`.

    Parameters
    ----------
    name:
        Of its file, and prefix of its ids on a page.
    caption, words:
        What is drawn how, and what it comes to.
    is_said:
        Whether the page says the words, too: those of some figures are for users only who can't see it.
    """

    name: str
    title: str
    caption: str
    words: str
    figure: Figure
    is_said: bool = True

    @property
    def svg(self) -> str:
        """The figure as an element of a page."""
        with d.settings():
            return d.to_svg(self.figure, name=self.name, title=self.title, description=f"{self.caption} {self.words}")


def panels_of(
    width_in: float, height_in: float, columns: int = 1, *, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Any]]:
    """Return a figure and its panels, side by side."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, sharex=sharex, sharey=sharey)[0])


def draw_moments(panel: Any, arm: Arm, moments: Sequence[Moment], scale: float, **style: Any) -> None:
    """Draw the median of an arm's runs as steps, and shade the range of several runs."""
    times = [moment.at_s / scale for moment in moments]
    panel.step(times, [moment.middle for moment in moments], where="post", **style)
    if len(arm.runs) > 1:
        low, high = [moment.low for moment in moments], [moment.high for moment in moments]
        panel.fill_between(times, low, high, step="post", color=style["color"], alpha=0.18, lw=0)


def legend_below(figure: Figure, panels: Sequence[Any]) -> None:
    """Put one legend for all panels under the figure, where it hides no data."""
    font = matplotlib.rcParams["legend.fontsize"]
    # 12 letters to an inch at 9 points; the exact width would need the figure drawn first.
    room = int(12 * figure.get_figwidth() * 9.0 / font)
    handles: dict[str, Any] = {}
    for panel in panels:
        # The first handle of a label stands for all: panels of several runs have the same marks.
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault("\n".join(wrap(label, room - 6)), handle)
    # Bars are of arms; what a mark means beside them comes after.
    handles = dict(sorted(handles.items(), key=lambda one: not isinstance(one[1], BarContainer)))
    widest = max((len(line) for label in handles for line in label.split("\n")), default=0)
    # 6 letters for the handle of an entry, and the gap to the next.
    columns = max(1, min(len(handles), room // (widest + 6)))
    lines = math.ceil(sum(label.count("\n") + 1 for label in handles) / columns)
    figure.set_figheight(figure.get_figheight() + max(0, lines - 2) * 1.5 * font / 72)  # what is drawn keeps its room
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def legend_bar(panel: Any, label: str, colour: str, hatch: str = "") -> None:
    """Give the legend a bar that is nowhere in the panel: of no height, and without the edge that would show there."""
    panel.bar([0], [0], 0.0, color=colour, hatch=hatch, edgecolor=d.PAPER, lw=0, label=label)


def say_above(panel: Any, words: str, at: float, height: float, font: float, above: float = 2.0) -> None:
    """Write above a bar, in front of the grid; `font` and `above` in points."""
    panel.annotate(
        words,
        (at, height),
        (0, above),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=font,
        bbox={"facecolor": d.PAPER, "edgecolor": "none", "pad": 0.2},
    )


def title_panel(panel: Any, run: RunSeries, runs: Sequence[RunSeries]) -> None:
    if len(runs) > 1:
        # 0.8 in for the labels of the y axis, which no panel has; bold titles are a quarter wider.
        width_in = (panel.figure.get_figwidth() - 0.8) / panel.get_gridspec().ncols
        panel.set_title(wrapped(plain(run.label, 120), width_in, 1.25 * matplotlib.rcParams["axes.titlesize"]))


def wrapped(words: str, width_in: float, font: float) -> str:
    """Break words into lines of so many inches, at a size in points, as far as they can be measured without drawing."""
    # A letter is 0.58 of the font size wide on average; 8, so that a narrow panel doesn't break every word.
    return "\n".join(wrap(words, max(8, int(72 * width_in / (0.58 * font)))))


def from_zero(panels: Sequence[Any]) -> None:
    """Let time axes begin with the run and end after the longest one, so that they compare; when all is drawn."""
    end = max(panel.dataLim.x1 for panel in panels)
    for panel in panels:
        # No data make the end minus infinity.
        panel.set_xlim(0, end * 1.03 if 0 < end < float("inf") else 1.0)


def limit_to_most(panel: Any, qualities: Sequence[float]) -> None:
    """Limit the y axis where a few bad evaluations would press the interesting ones into a line."""
    ordered = sorted(qualities)
    if len(ordered) < 20:
        return
    # Without the worst and the best twentieth: what lies far outside the others' range may leave the panel.
    low, high = ordered[len(ordered) // 20], ordered[-1 - len(ordered) // 20]
    span = (high - low) or abs(high) or 1.0
    bottom, top = max(ordered[0], low - 1.5 * span), min(ordered[-1], high + 1.5 * span)
    room = 0.05 * (top - bottom) or 0.05
    panel.set_ylim(bottom - room, top + room)


def mark_size(count: int) -> float:
    """Return the size of marks in points: large enough to be found where there are few."""
    return 3.2 if count > 60 else 5.0


def label_of(run: RunSeries) -> str:
    return plain(run.label, 40)


def suffix_of(run: RunSeries, runs: Sequence[RunSeries]) -> str:
    return f", {label_of(run)}" if len(runs) > 1 else ""
