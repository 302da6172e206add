"""Drawings as SVG that follows the page's light or dark theme, for live pages, stage trees and lines of a word's size.

They are made here, because a scheduler draws them anew whenever something has changed, in its event loop. Of one chart
of 1,000 evaluations, matplotlib, which draws the figures of reports, takes 30 times the time and 8 times the bytes, and
Bokeh 17 times and twice, with 1.2 MB of script in each page; each takes seconds to import, and is an extra of daskevo.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup, escape

from daskevo_plugins.dashboard.templates import visible
from daskevo_plugins.formatting import time_unit

WIDTH = 1000
LEFT, RIGHT = 62, 975
TOP, BOTTOM = 26, 30

Part = tuple[str, float, str]
"""Class, value, and label of a part of a bar."""


def shape(tag: str, *inside: str, title: str = "", **attributes: Any) -> Markup:
    """Return an element: fractions get one decimal, text is escaped, attributes that are None are left out.

    Parameters
    ----------
    title:
        Said of it where somebody points at it.

    Examples
    --------
    >>> shape("path", title="a < b", d="M0 0", class_="line", stroke_width=2)
    Markup('<path d="M0 0" class="line" stroke-width="2"><title>a &lt; b</title></path>')
    """
    words = ""
    for name, value in attributes.items():
        if value is not None:
            said = f"{value:.1f}" if isinstance(value, float) else escape(visible(value))
            # Python's keywords and names: `class_` stands for `class`, `stroke_width` for `stroke-width`.
            words += f' {name.rstrip("_").replace("_", "-")}="{said}"'
    if title:
        inside = (shape("title", title), *inside)
    content = "".join(escape(visible(one)) for one in inside)
    return Markup(f"<{tag}{words}>{content}</{tag}>" if content else f"<{tag}{words}/>")


def text(x: float, y: float, words: str, anchor: str = "start", **attributes: Any) -> Markup:
    """Return a text; `anchor` tells which of its ends, or its middle, is at `x`."""
    return shape("text", words, x=float(x), y=float(y), text_anchor=anchor, **attributes)


def drawing(width: int, height: int, /, *inside: str, **attributes: Any) -> Markup:
    """Return an ``<svg>`` element."""
    space = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "role": "img"}
    return shape("svg", *inside, **space, **attributes)


def described(name: str, title: str, words: str, width: int, height: int, *inside: str, **attributes: Any) -> Markup:
    """Return an ``<svg>`` element with a title and a description for users who can't see it; `name` begins its ids."""
    said = shape("title", title, id=f"{name}-title"), shape("desc", words, id=f"{name}-desc")
    return drawing(width, height, *said, *inside, aria_labelledby=f"{name}-title {name}-desc", **attributes)


@dataclass
class Chart:
    """One chart over time, to which marks are added one after the other.

    Parameters
    ----------
    name:
        Prefix of its element ids.
    title, description:
        Text for users who can't see it.
    height:
        Height in units; the width is 1,000.
    x, y:
        Range of the axis: from, to.
    y_words:
        Name of the y axis.
    """

    name: str
    title: str
    description: str
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    y_words: str = ""
    _shapes: list[Markup] = field(default_factory=list)
    _legend_x: float = LEFT

    def at_x(self, value: float) -> float:
        low, high = self.x
        # Values outside the range are drawn at the edge: a single outlier must not press all others together.
        return LEFT + (RIGHT - LEFT) * (min(max(value, low), high) - low) / ((high - low) or 1.0)

    def at_y(self, value: float) -> float:
        low, high = self.y
        bottom = self.height - BOTTOM
        return bottom - (bottom - TOP) * (min(max(value, low), high) - low) / ((high - low) or 1.0)

    def dots(self, points: Iterable[tuple[float, float]], style: str, words: str, size: float = 6.5) -> None:
        """Add dots as one path: a zero-length line with round ends is a dot.

        Parameters
        ----------
        style:
            CSS class: ``full``, ``hollow`` or ``member``.
        size:
            Diameter.
        """
        # One element for all of them: a page is fetched about once a second, and each of 600 circles would be a line of
        # it.
        path = "".join(f"M{self.at_x(x):.1f} {self.at_y(y):.1f}h0" for x, y in points)
        self._mark(path, f"dots {style}", words, f"M{self._legend_x + 8:.0f} 11h0", size)

    def steps(self, points: Sequence[tuple[float, float]], style: str, words: str) -> None:
        """Add a step line that changes at each point and continues to the end of the chart."""
        places = [(self.at_x(x), self.at_y(y)) for x, y in points]
        self._mark(step_path(places, RIGHT), f"line {style}", words, f"M{self._legend_x:.0f} 11h14")

    def line(self, points: Sequence[tuple[float, float]], style: str, words: str) -> None:
        """Add a line from point to point."""
        # A line of one point has no length: from the point to itself it is a dot, by its round ends.
        twice = points if len(points) != 1 else [*points, *points]
        path = "L".join(f"{self.at_x(x):.1f} {self.at_y(y):.1f}" for x, y in twice)
        self._mark(f"M{path}" if path else "", f"line {style}", words, f"M{self._legend_x:.0f} 11h14")

    def _mark(self, path: str, style: str, words: str, sample: str, size: float | None = None) -> None:
        """Add a path, if there is any, and a sample with words to the legend."""
        for each in filter(None, (path, sample)):
            self._shapes.append(shape("path", d=each, class_=style, stroke_width=size))
            # A zero-length line has no inside to be left empty: a smaller dot in the colour of the paper lies on it.
            if size is not None and style.endswith("hollow"):
                self._shapes.append(shape("path", d=each, class_="dots inner", stroke_width=size - 4))
        self._shapes.append(text(self._legend_x + 20, 15.5, words))
        # 6.9 units a letter at font size 13: only a browser could measure the words.
        self._legend_x += 20 + 6.9 * len(words) + 26

    def svg(self, x_ticks: Iterable[tuple[float, str]], y_ticks: Iterable[tuple[float, str]]) -> Markup:
        """Return the SVG with the given axis ticks."""
        bottom, grid = self.height - BOTTOM, []
        for value, words in y_ticks:
            grid.append(shape("path", d=f"M{LEFT} {self.at_y(value):.1f}H{RIGHT}", class_="grid"))
            grid.append(text(LEFT - 8, self.at_y(value) + 4.5, words, "end"))
        for value, words in x_ticks:
            grid.append(shape("path", d=f"M{self.at_x(value):.1f} {bottom}v5", class_="grid"))
            grid.append(text(self.at_x(value), bottom + 20, words, "middle"))
        axis = shape("path", d=f"M{LEFT} {bottom}H{RIGHT}", class_="axis")
        what = text(RIGHT, 15.5, self.y_words, "end", class_="faint")
        inside = (*grid, axis, *self._shapes, what)
        return described(
            self.name, self.title, self.description, WIDTH, self.height, *inside, font_size=13, class_="chart"
        )


def step_path(points: Sequence[tuple[float, float]], end: float) -> str:
    """Return the path of a line whose height holds from each point to the next, and from the last one to `end`.

    Examples
    --------
    >>> step_path([(0, 3), (5, 1)], 9)
    'M0.0 3.0H5.0V1.0H9.0'
    """
    if not points:
        return ""
    later = "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
    return f"M{points[0][0]:.1f} {points[0][1]:.1f}{later}H{end:.1f}"


def side_by_side(parts: Iterable[Part], whole: float, width: int, height: int) -> Iterator[Markup]:
    """Yield the parts of a bar from left to right; `whole` is the value of its full width."""
    x = 0.0
    for style, value, words in parts:
        wide = width * value / whole if whole > 0 else 0.0
        if wide > 0:
            yield shape("rect", title=words, x=x, width=wide, height=height, class_=style)
        x += wide


def stacked_bar(name: str, title: str, parts: Sequence[Part], whole: float) -> Markup:
    """Return one bar of several parts."""
    ground = shape("rect", width=WIDTH, height=22, class_="part left")
    shapes = side_by_side([(f"part {style}", value, words) for style, value, words in parts], whole, WIDTH, 22)
    said = "; ".join(words for _, _, words in parts)
    # Stretched to the width of the page, whatever that is: a bar has no shape to keep.
    return described(name, title, said, WIDTH, 22, ground, *shapes, preserveAspectRatio="none", class_="bar")


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return a handful of round numbers from `low` to `high`.

    Examples
    --------
    >>> ticks(0.0, 1.0), ticks(0.92, 0.97), ticks(0, 75, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.92, 0.93, 0.94, 0.95, 0.96, 0.97], [0.0, 20.0, 40.0, 60.0])
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10 ** math.floor(math.log10(span / most))
    # 0.01, and 1e-9 below: ranges come from additions of floats, and their ends must not lose a tick to rounding.
    width = next(factor * power for factor in (1, 2, 5, 10, 20) if span / (factor * power) <= most + 0.01)
    first = math.ceil(low / width - 1e-9)
    places = range(first, math.floor(high / width + 1e-9) + 1)
    return [float(round(place * width, 12)) for place in places]


def time_ticks(until_s: float) -> list[tuple[float, str]]:
    """Return ticks, with labels, of a time axis from 0.

    Examples
    --------
    >>> time_ticks(75)
    [(0.0, '0 s'), (20.0, '20 s'), (40.0, '40 s'), (60.0, '60 s')]
    >>> time_ticks(600)[1]
    (120.0, '2 min')
    """
    scale, unit = time_unit(until_s)
    return [(place * scale, f"{place:g} {unit}") for place in ticks(0, until_s / scale)]


def room(values: Sequence[float], least: float = 1e-9) -> tuple[float, float]:
    """Return an axis range that contains all values with a small margin.

    Examples
    --------
    >>> room([0.5, 0.9])
    (0.48, 0.92)
    """
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    # Of equal values the range would have no width, and at 1e9 a width of 1e-9 is lost to rounding.
    span = max(high - low, least, abs(high) * 1e-6)
    return round(low - span * 0.05, 12), round(high + span * 0.05, 12)


def within_most(values: Sequence[float]) -> tuple[float, float]:
    """Return an axis range that may leave out single outliers, which are then drawn at its edge.

    Outliers are values further from the middle half than three times its width.
    """
    ordered = sorted(values)
    # Of so few no quarter tells what is usual.
    if len(ordered) < 8:
        return room(ordered)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    reach = 3 * (high - low)
    return room([value for value in ordered if low - reach <= value <= high + reach])
