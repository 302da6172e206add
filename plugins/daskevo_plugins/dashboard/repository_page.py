"""The repositories page as HTML: counts of the coordinators and the latest answers of their providers."""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.page import DashboardPage
from daskevo_plugins.dashboard.repository_views import EVERY_S, HISTORY, Rate, SeenRepository
from daskevo_plugins.dashboard.svg import Chart, stacked_bar, ticks
from daskevo_plugins.dashboard.templates import render
from daskevo_plugins.formatting import say_bytes, say_seconds

MOST_SHARDS = 16
"""Maximum number of rows in the table of shards; the most used ones are shown."""
MOST_PROVIDERS = 64


def repository_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `repository` selects the repository."""
    seen = board.repositories.one(query.get("repository", ""))
    return page_of("repository.html.j2", board, seen, part=seen and seen.part("repository", lambda: _part(seen)))


def page_of(template: str, board: Board, seen: SeenRepository | None, **parts: Any) -> str:
    """Return a page of a repository; if there is none to be seen, why."""
    every, troubles = board.repositories.all(), board.repositories.troubles
    return str(render(template, seen=seen, every=every, troubles=troubles, now=board.clock(), **parts))


def _part(seen: SeenRepository) -> str:
    """Return the part that changes only with a new view."""
    view = seen.view
    stored, full = view.total("stored_bytes"), view.total("full_copy_bytes")
    # Tensors of retired models stay while heirs use them: more may be stored than copies of the living would take.
    saved = max(0, full - stored)
    shared = [
        ("done", stored, f"{say_bytes(stored)} stored"),
        ("left", saved, f"{say_bytes(saved)} not stored again, since models share tensors"),
    ]
    return render(
        "repository_part.html.j2",
        seen=seen,
        rate=_say_rate,
        infinite=math.inf,
        every_s=EVERY_S,
        shared=stacked_bar("shared", "Bytes stored against full copies", shared, max(full, stored)),
        shared_parts=shared,
        chart=_queries(seen),
        most_providers=MOST_PROVIDERS,
        most_shards=MOST_SHARDS,
        shards=sorted(view.shard_rows, key=lambda row: (-seen.asked.get(row.shard, 0), -row.asked, row.shard)),
    )


def _say_rate(rate: Rate | None, what: str = "items_per_s") -> str:
    if not rate:
        return "–"
    value: float = getattr(rate, what)
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _queries(seen: SeenRepository) -> Markup | None:
    # A line needs two points, and the first view has nothing to compare its counts with.
    if len(seen.history) < 2:
        return None
    last = seen.history[-1][0]
    points = [(at_s - last, rate) for at_s, rate, _ in seen.history]
    most = max(max(rate for _, rate in points), 1.0)
    chart = Chart(
        "queries",
        "Queries per second",
        f"The last {say_seconds(-points[0][0])}: {points[-1][1]:.3g} at the last look, {most:.3g} at most.",
        height=150,
        # At least 30 s wide: two looks would otherwise fill the chart with one stroke.
        x=(min(points[0][0], -30.0), 0.0),
        # Room above the highest point, so that its line is not cut in half.
        y=(0.0, most * 1.08),
        y_words=f"all providers, the last {HISTORY} looks at most",
    )
    chart.line(points, "mean", "queries per second")
    marks = [(-value, "now" if not value else f"-{value:g} s") for value in ticks(0, -chart.x[0])]
    return chart.svg(marks, [(value, f"{value:g}") for value in ticks(0, most, 3)])


REPOSITORY = DashboardPage(
    name="repository",
    render=repository_now,
    arguments=("repository",),
    changes=lambda board: (board.repositories.changes,),
    wait_s=lambda board: board.repositories.next_s(),
    asks_providers=True,
)
