"""A tree of progress as an SVG drawing, for a report and for a page that shows it live.

What its colours, variables of the page, say is said by shapes, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

from markupsafe import Markup

from daskevo.tuning.progress_tree import Goal, Progress, Span
from daskevo.tuning.tree_layout import Row, TreeLayout
from daskevo_plugins.dashboard.svg import described, shape, text, ticks

WIDTH = 1040
LEFT, RIGHT = 14, 660
"""Between them is the time of steps; the words of a row stand right of that."""
TOP, ROW, BAR = 62, 23, 13
FONT = 12
# As many as fit between RIGHT and WIDTH at this font size; the whole text is in the title.
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


def tree_svg(
    layout: TreeLayout, *, name: str = "tree", title: str = "The stage tree", quality: str = "quality"
) -> Markup:
    """Return an ``<svg>`` element with a title, a description, and words at each bar and goal.

    Parameters
    ----------
    name:
        Prefix of every id in it.
    quality:
        What the figures at goals are called.
    """
    height = TOP + ROW * len(layout.rows) + 8
    numbered = list(enumerate(layout.rows))
    inside = chain(
        (_patterns(name),),
        _legend(name, layout),
        _axis(layout, height),
        # All connections come first, so that bars lie on top of them.
        chain.from_iterable(_connection(layout, number, row) for number, row in numbered),
        chain.from_iterable(_row(layout, name, number, row, quality) for number, row in numbered),
    )
    return described(name, title, describe(layout), WIDTH, height, *inside, font_size=FONT, class_="stage-tree")


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


def _patterns(name: str) -> Markup:
    size: dict[str, Any] = {"width": 6, "height": 6}
    ground = shape("rect", **size, style="fill: var(--paper)")
    patterns, looks = [], (("running", 45, 4, "orange"), ("failed", -45, 2, "vermilion"))
    for word, turn, wide, colour in looks:
        stripe = shape("rect", width=wide, height=6, style=f"fill: var(--{colour})")
        how: dict[str, Any] = {"patternUnits": "userSpaceOnUse", "patternTransform": f"rotate({turn})"}
        patterns.append(shape("pattern", ground, stripe, id=f"{name}-{word}", **size, **how))
    return shape("defs", *patterns)


def _legend(name: str, layout: TreeLayout) -> Iterator[Markup]:
    x = float(LEFT)
    for word in _LOOKS:
        yield _bar(name, word, x, 6, 26, "")
        yield _text(x + 32, 15, word)
        # 7 units a letter, since only a browser could measure the words.
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


def _axis(layout: TreeLayout, height: int) -> Iterator[Markup]:
    for step in map(int, ticks(0, layout.stop, min(8, layout.stop))):
        x = _x(layout, step)
        yield shape("path", d=f"M{x:.1f} {TOP - 10}V{height - 6}", style="stroke: var(--line)")
        yield _text(x, TOP - 15, f"{step:,}", anchor="start" if step == 0 else "middle")
    yield _text(RIGHT + 16, TOP - 15, f"step ({layout.unit})", style="; opacity: .8")


def _x(layout: TreeLayout, step: int) -> float:
    return LEFT + (RIGHT - LEFT) * step / max(1, layout.stop)


def _y(number: int) -> float:
    return TOP + ROW * number + ROW / 2


def _connection(layout: TreeLayout, number: int, row: Row) -> Iterator[Markup]:
    if row.parent is not None:
        path = f"M{_x(layout, row.start):.1f} {_y(row.parent) + BAR / 2:.1f}V{_y(number):.1f}h2"
        yield shape("path", d=path, style="fill: none; stroke: var(--faint); stroke-width: 1.5")


def _row(layout: TreeLayout, name: str, number: int, row: Row, quality: str) -> Iterator[Markup]:
    y = _y(number)
    end = _x(layout, row.stop)
    # A dotted line leads the eye from the end of a short row to its words.
    if RIGHT + 8 - end > 12:
        yield shape("path", d=f"M{end + 8:.1f} {y:.1f}H{RIGHT + 8}", style="stroke: var(--line); stroke-dasharray: 1 4")
    for span, needed in zip(row.spans, row.needed, strict=True):
        x = _x(layout, span.start)
        width = _x(layout, span.stop) - x
        yield _bar(name, span.progress, x, y - BAR / 2, width, _say_span(span, row))
        # Where the number fits, and on plain ground: stripes would make it unreadable.
        if needed > 1 and width > 34 and span.progress in ("done", "waiting"):
            ink = "paper" if span.progress == "done" else "ink"
            yield text(x + 7, y + 3.5, f"×{needed}", font_size=10, style=f"fill: var(--{ink})")
    if row.branches > 1:
        yield _text((_x(layout, row.start) + end) / 2, y + 4, "⋯", anchor="middle", style="; font-weight: bold")
    for goal in row.goals:
        yield _mark(goal, _x(layout, goal.step), y, _say_goal(goal, quality))
    words = say_row(row)
    shown = words if len(words) <= MOST_LETTERS else words[: MOST_LETTERS - 1] + "…"
    yield shape("g", _text(RIGHT + 16, y + 4, shown), title=words)


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


def _bar(name: str, word: Progress, x: float, y: float, width: float, said: str) -> Markup:
    ground, edge = _LOOKS[word]
    style = f"fill: {ground.format(name=name)}; stroke: {edge}{'; stroke-dasharray: 3 2' * (word == 'waiting')}"
    return shape("rect", title=said, x=x, y=y, width=max(1.0, width), height=BAR, class_=word, style=style)


def _mark(goal: Goal, x: float, y: float, said: str) -> Markup:
    if goal.best:
        points = " ".join(
            f"{x + radius * math.sin(math.pi * corner / 5):.1f},{y - radius * math.cos(math.pi * corner / 5):.1f}"
            for corner in range(10)
            for radius in ((8, 3.4)[corner % 2],)
        )
        style = "fill: var(--ink); stroke: var(--paper); stroke-width: 1"
        return shape("polygon", title=said, points=points, class_="goal", style=style)
    if goal.progress == "failed":
        style = "fill: none; stroke: var(--vermilion); stroke-width: 2.5"
        return shape("path", title=said, d=f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8", class_="goal", style=style)
    ground, edge = ("ink", "paper") if goal.progress == "done" else ("paper", "ink")
    style = f"fill: var(--{ground}); stroke: var(--{edge}); stroke-width: 1.2"
    return shape("circle", title=said, cx=x, cy=y, r=3.6, class_="goal", style=style)


def _text(x: float, y: float, words: str, *, anchor: str = "start", style: str = "") -> Markup:
    return text(x, y, words, anchor, style=f"fill: var(--ink){style}")
