"""A tree of progress as an SVG drawing, for a report and for a page that shows it live.

Colours are variables of the page (``--green``, ``--orange``, ``--vermilion``, ``--faint``, ``--line``, ``--ink``,
``--paper``), so that it is light or dark as the page is; what they say is said by shapes, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape as escape_html

from daskevo.tuning.progress_tree import Goal, Progress, Span
from daskevo.tuning.tree_layout import Row, TreeLayout

WIDTH = 1040
LEFT, RIGHT = 14, 660
"""Between them is the time of steps; the words of a row stand right of that."""
TOP, ROW, BAR = 62, 23, 13
FONT = 12
MOST_LETTERS = 58

_LOOKS: dict[Progress, tuple[str, str]] = {
    "done": ("var(--green)", "var(--paper)"),
    "running": ("url(#{name}-running)", "var(--orange)"),
    "waiting": ("var(--paper)", "var(--faint)"),
    "failed": ("url(#{name}-failed)", "var(--vermilion)"),
}
"""Ground and edge of a bar."""

_SAID: dict[Progress, str] = {
    "done": "trained",
    "running": "being trained",
    "waiting": "still to be trained",
    "failed": "not trained: it failed",
}


def tree_svg(layout: TreeLayout, *, name: str = "tree", title: str = "The stage tree", quality: str = "quality") -> str:
    """Return an ``<svg>`` element with a title, a description, and words at each bar and goal.

    Parameters
    ----------
    name:
        Prefix of every id in it.
    quality:
        What the figures at goals are called.
    """
    height = TOP + ROW * len(layout.rows) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" font-size="{FONT}" class="stage-tree">',
        f'<title id="{name}-title">{said_plainly(title)}</title>',
        f'<desc id="{name}-desc">{said_plainly(describe(layout))}</desc>',
        _patterns(name),
        *_legend(name, layout),
        *_axis(layout, height),
    ]
    for number, row in enumerate(layout.rows):
        parts += _connection(layout, number, row)
    for number, row in enumerate(layout.rows):
        parts += _row(layout, name, number, row, quality)
    return "\n".join([*parts, "</svg>"])


def describe(layout: TreeLayout) -> str:
    """Say in words what the drawing shows."""
    if not layout.rows:
        return "No trial has been asked for yet."
    branches = sum(row.branches for row in layout.rows)
    folded = sum(row.branches for row in layout.rows if row.branches > 1)
    said = f"{branches} branches of up to {layout.stop} steps ({layout.unit}), each below the one that it parts from"
    ends = {word: sum(row.spans[-1].progress == word for row in layout.rows if row.branches == 1) for word in _LOOKS}
    words = ", ".join(f"{count} {word}" for word, count in ends.items() if count)
    return f"{said}; at their ends {words}" + (f"; {folded} are folded into rows with others." if folded else ".")


def _patterns(name: str) -> str:
    lines = (
        f'<pattern id="{name}-{word}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({turn})">'
        f'<rect width="6" height="6" style="fill: var(--paper)"/><rect width="{wide}" height="6" style="fill: {edge}"/>'
        "</pattern>"
        for word, turn, wide, edge in (
            ("running", 45, 4, _LOOKS["running"][1]),
            ("failed", -45, 2, _LOOKS["failed"][1]),
        )
    )
    return f"<defs>{''.join(lines)}</defs>"


def _legend(name: str, layout: TreeLayout) -> Iterator[str]:
    x = float(LEFT)
    for word in _LOOKS:
        yield _bar(name, word, x, 6, 26, "")
        yield _text(x + 32, 15, word)
        x += 32 + 7 * len(word) + 22
    for goal, what in (
        (Goal(0, "done", ()), "scored"),
        (Goal(0, "waiting", ()), "to be scored"),
        (Goal(0, "done", (), best=True), "best"),
    ):
        yield _mark(goal, x + 6, 12, "")
        yield _text(x + 16, 15, what)
        x += 16 + 7 * len(what) + 22
    if any(row.branches > 1 for row in layout.rows):
        yield _text(x, 15, "⋯ several branches in one row")
        x += 7 * 29 + 22
    yield _text(x, 15, "×n: n trials need it")


def _axis(layout: TreeLayout, height: int) -> Iterator[str]:
    for step in ticks(layout.stop):
        x = _x(layout, step)
        yield f'<line x1="{x:.1f}" y1="{TOP - 10}" x2="{x:.1f}" y2="{height - 6}" style="stroke: var(--line)"/>'
        yield _text(x, TOP - 15, f"{step:,}", anchor="start" if step == 0 else "middle")
    yield _text(RIGHT + 16, TOP - 15, f"step ({layout.unit})", faint=True)


def ticks(stop: int) -> list[int]:
    """Return round steps from 0 to at most `stop`, a handful.

    Examples
    --------
    >>> ticks(60), ticks(16), ticks(1)
    ([0, 10, 20, 30, 40, 50, 60], [0, 2, 4, 6, 8, 10, 12, 14, 16], [0, 1])
    """
    rough = max(1.0, stop / 8)
    power = 10 ** math.floor(math.log10(rough))
    width = int(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough))
    return list(range(0, stop + 1, width))


def _x(layout: TreeLayout, step: int) -> float:
    return LEFT + (RIGHT - LEFT) * step / max(1, layout.stop)


def _y(number: int) -> float:
    return TOP + ROW * number + ROW / 2


def _connection(layout: TreeLayout, number: int, row: Row) -> Iterator[str]:
    if row.parent is not None:
        x = _x(layout, row.start)
        start, end = _y(row.parent) + BAR / 2, _y(number)
        yield (
            f'<path d="M{x:.1f} {start:.1f}V{end:.1f}h2" style="fill: none; stroke: var(--faint); stroke-width: 1.5"/>'
        )


def _row(layout: TreeLayout, name: str, number: int, row: Row, quality: str) -> Iterator[str]:
    y = _y(number)
    end = _x(layout, row.stop)
    if RIGHT + 8 - end > 12:
        yield (
            f'<line x1="{end + 8:.1f}" y1="{y:.1f}" x2="{RIGHT + 8}" y2="{y:.1f}" '
            'style="stroke: var(--line); stroke-dasharray: 1 4"/>'
        )
    for span, needed in zip(row.spans, row.needed, strict=True):
        x = _x(layout, span.start)
        width = _x(layout, span.stop) - x
        yield _bar(name, span.progress, x, y - BAR / 2, width, _say_span(span, row))
        if needed > 1 and width > 34 and span.progress in ("done", "waiting"):
            ink = "var(--paper)" if span.progress == "done" else "var(--ink)"
            yield f'<text x="{x + 7:.1f}" y="{y + 3.5:.1f}" font-size="10" style="fill: {ink}">×{needed}</text>'
    if row.branches > 1:
        yield _text((_x(layout, row.start) + end) / 2, y + 4, "⋯", anchor="middle", bold=True)
    for goal in row.goals:
        yield _mark(goal, _x(layout, goal.step), y, _say_goal(goal, quality))
    words = say_row(row)
    shown = words if len(words) <= MOST_LETTERS else words[: MOST_LETTERS - 1] + "…"
    yield f"<g><title>{said_plainly(words)}</title>{_text(RIGHT + 16, y + 4, shown)}</g>"


def say_row(row: Row) -> str:
    """Say what a row is: what sets it apart, who needs it, what came of it."""
    if row.branches > 1:
        return f"{row.branches} branches of {row.trials} trials: {row.words}"
    named = row.goals[-1].trials if row.goals else row.spans[-1].trials
    who = ", ".join(named) if len(named) <= 2 else f"{named[0]} and others"
    scored = [goal for goal in row.goals if goal.quality is not None]
    came = f"{scored[-1].quality:.4g}" if scored else ""
    return " · ".join(filter(None, (row.words, came, who)))


def _say_span(span: Span, row: Row) -> str:
    needed = "needed" if span.progress == "done" else "needs"
    where = f" by {span.trainer}" if span.trainer else ""
    who = f"; {', '.join(span.trials)} {needed} it" if span.trials else ""
    if row.branches > 1:
        who = f"; {row.branches} branches"
    return f"steps {span.start} to {span.stop}: {_SAID[span.progress]}{where}{who}"


def _say_goal(goal: Goal, quality: str) -> str:
    came = f"{quality} {goal.quality:.4g}" if goal.quality is not None else goal.progress
    best = ", the best" if goal.best else ""
    return f"step {goal.step}: {came}{best}; {', '.join(goal.trials)}"


def _bar(name: str, word: Progress, x: float, y: float, width: float, said: str) -> str:
    ground, edge = _LOOKS[word]
    dashed = "; stroke-dasharray: 3 2" if word == "waiting" else ""
    style = f"fill: {ground.format(name=name)}; stroke: {edge}{dashed}"
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{max(1.0, width):.1f}" height="{BAR}" class="{word}" style="{style}"'
    return f"<rect {shape}><title>{said_plainly(said)}</title></rect>" if said else f"<rect {shape}/>"


def _mark(goal: Goal, x: float, y: float, said: str) -> str:
    words = f"<title>{said_plainly(said)}</title>" if said else ""
    if goal.best:
        points = " ".join(
            f"{x + radius * math.sin(math.pi * corner / 5):.1f},{y - radius * math.cos(math.pi * corner / 5):.1f}"
            for corner in range(10)
            for radius in ((8, 3.4)[corner % 2],)
        )
        style = "fill: var(--ink); stroke: var(--paper); stroke-width: 1"
        return f'<polygon points="{points}" class="goal" style="{style}">{words}</polygon>'
    if goal.progress == "failed":
        style = "fill: none; stroke: var(--vermilion); stroke-width: 2.5"
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        return f'<path d="{path}" class="goal" style="{style}">{words}</path>'
    ground = "var(--ink)" if goal.progress == "done" else "var(--paper)"
    style = f"fill: {ground}; stroke: {'var(--paper)' if goal.progress == 'done' else 'var(--ink)'}; stroke-width: 1.2"
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" class="goal" style="{style}">{words}</circle>'


def said_plainly(words: str) -> str:
    """Return words as they may stand in a page: no markup, nothing that is not seen or turns the direction."""
    return escape_html("".join(letter if letter.isprintable() else " " for letter in words))


def _text(x: float, y: float, words: str, *, anchor: str = "start", faint: bool = False, bold: bool = False) -> str:
    style = f"fill: var(--ink){'; opacity: .8' if faint else ''}{'; font-weight: bold' if bold else ''}"
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{said_plainly(words)}</text>'
