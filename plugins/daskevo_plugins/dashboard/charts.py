"""Charts over time as SVG that follows the page's light or dark theme: axes, dots, lines, bars."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from daskevo.tuning.tree_svg import said_plainly

WIDTH = 1000
LEFT, RIGHT = 62, 986
TOP, BOTTOM = 26, 30
FONT = 13


@dataclass
class Chart:
    """One chart, to which marks are added one after the other.

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
    _parts: list[str] = field(default_factory=list)
    _legend: list[str] = field(default_factory=list)
    _legend_x: float = LEFT

    def at_x(self, value: float) -> float:
        low, high = self.x
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
        path = "".join(f"M{self.at_x(x):.1f} {self.at_y(y):.1f}h0" for x, y in points)
        if path:
            self._parts.append(f'<path d="{path}" class="dots {style}" stroke-width="{size}"/>')
            if style == "hollow":
                self._parts.append(f'<path d="{path}" class="dots inner" stroke-width="{size - 4}"/>')
        self._add_legend(words, f'class="dots {style}" stroke-width="{size}"', "h0", inner=style == "hollow")

    def steps(self, points: Sequence[tuple[float, float]], style: str, words: str) -> None:
        """Add a step line that changes at each point and continues to the end of the chart."""
        if points:
            path = f"M{self.at_x(points[0][0]):.1f} {self.at_y(points[0][1]):.1f}"
            path += "".join(f"H{self.at_x(x):.1f}V{self.at_y(y):.1f}" for x, y in points[1:])
            self._parts.append(f'<path d="{path}H{self.at_x(self.x[1]):.1f}" class="line {style}"/>')
        self._add_legend(words, f'class="line {style}"', "h14")

    def line(self, points: Sequence[tuple[float, float]], style: str, words: str) -> None:
        """Add a line from point to point."""
        if len(points) == 1:
            points = [points[0], points[0]]
        path = "L".join(f"{self.at_x(x):.1f} {self.at_y(y):.1f}" for x, y in points)
        if path:
            self._parts.append(f'<path d="M{path}" class="line {style}"/>')
        self._add_legend(words, f'class="line {style}"', "h14")

    def _add_legend(self, words: str, how: str, mark: str, *, inner: bool = False) -> None:
        x = self._legend_x
        start = x if mark == "h14" else x + 8
        hollow = f'<path d="M{start:.0f} 11h0" class="dots inner" stroke-width="4.5"/>' if inner else ""
        self._legend.append(f'<path d="M{start:.0f} 11{mark}" {how}/>{hollow}{_text(x + 20, 15.5, words)}')
        self._legend_x += 20 + 6.9 * len(words) + 26

    def svg(self, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> str:
        """Return the SVG with the given axis ticks."""
        bottom = self.height - BOTTOM
        grid = [
            f'<path d="M{LEFT} {self.at_y(value):.1f}H{RIGHT}" class="grid"/>'
            f"{_text(LEFT - 8, self.at_y(value) + 4.5, words, anchor='end')}"
            for value, words in y_ticks
        ]
        grid += [
            f'<path d="M{self.at_x(value):.1f} {bottom}v5" class="grid"/>'
            f"{_text(self.at_x(value), bottom + 20, words, anchor='middle')}"
            for value, words in x_ticks
        ]
        what = _text(RIGHT, 15.5, self.y_words, anchor="end", faint=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img" '
            f'aria-labelledby="{self.name}-title {self.name}-desc" font-size="{FONT}" class="chart">'
            f'<title id="{self.name}-title">{said_plainly(self.title)}</title>'
            f'<desc id="{self.name}-desc">{said_plainly(self.description)}</desc>'
            f'{"".join(grid)}<path d="M{LEFT} {bottom}H{RIGHT}" class="axis"/>'
            f"{''.join(self._parts)}{''.join(self._legend)}{what}</svg>"
        )


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
    scale, unit = (3600.0, "h") if until_s >= 3 * 3600 else (60.0, "min") if until_s >= 180 else (1.0, "s")
    return [(place * scale, f"{place:g} {unit}") for place in ticks(0, until_s / scale)]


def room(values: Sequence[float], least: float = 1e-9) -> tuple[float, float]:
    """Return an axis range that contains all values with a small margin.

    Examples
    --------
    >>> room([0.5, 0.9])
    (0.48, 0.92)
    """
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    span = max(high - low, least, abs(high) * 1e-6)
    return round(low - span * 0.05, 12), round(high + span * 0.05, 12)


def within_most(values: Sequence[float]) -> tuple[float, float]:
    """Return an axis range that may leave out single outliers, which are then drawn at its edge.

    Outliers are values further from the middle half than three times its width.
    """
    ordered = sorted(values)
    if len(ordered) < 8:
        return room(ordered)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    reach = 3 * (high - low)
    return room([value for value in ordered if low - reach <= value <= high + reach])


def stacked_bar(
    name: str, title: str, parts: Sequence[tuple[str, float, str]], whole: float, *, height: int = 22
) -> str:
    """Return one bar of several parts with a legend in words below.

    Parameters
    ----------
    parts:
        Class, value, and label with the value, of each part.
    whole:
        Value of the bar's full length.
    """
    x, shapes = 0.0, []
    for style, value, words in parts:
        width = WIDTH * value / whole if whole > 0 else 0.0
        if width > 0:
            shapes.append(
                f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="{height}" class="part {style}">'
                f"<title>{said_plainly(words)}</title></rect>"
            )
        x += width
    keys = "".join(
        f'<li><span class="key {style}"></span>{said_plainly(words)}</li>' for style, value, words in parts if words
    )
    said = said_plainly("; ".join(words for _, _, words in parts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" class="bar"><title id="{name}-title">{said_plainly(title)}</title>'
        f'<desc id="{name}-desc">{said}</desc><rect width="{WIDTH}" height="{height}" class="part left"/>'
        f'{"".join(shapes)}</svg><ul class="keys" aria-hidden="true">{keys}</ul>'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", faint: bool = False) -> str:
    kind = ' class="faint"' if faint else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{said_plainly(words)}</text>'
