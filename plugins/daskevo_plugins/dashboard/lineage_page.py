"""The lineage page of a repository as HTML: the tree of published models, and what each has stored for others."""

from __future__ import annotations

from collections import Counter
from functools import partial

from markupsafe import Markup

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.lineage_tree import TreeRow, lineage_tree
from daskevo_plugins.dashboard.page import DashboardPage
from daskevo_plugins.dashboard.repository_page import page_of
from daskevo_plugins.dashboard.repository_view import RepositoryView
from daskevo_plugins.dashboard.svg import drawing, shape
from daskevo_plugins.dashboard.templates import render
from daskevo_plugins.formatting import say_qualities

LEVEL, ROW = 16, 26
"""Width of a level of the tree, and height of a row."""
MOST_LEVELS = 24
"""Deeper levels are drawn at this one."""
STAR = "0,-7.5 2,-2.6 7.2,-2.3 3.2,1 4.5,6.1 0,3.3 -4.5,6.1 -3.2,1 -7.2,-2.3 -2,-2.6"


def lineage_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's content; the arguments `repository` and `scope` select it."""
    seen = board.repositories.one(query.get("repository", ""))
    scopes: list[str] = []
    scope, part = "", None
    if seen is not None and seen.view.models:
        view = seen.view
        # The scope with the most models is shown where the address names none, or one that is gone.
        counts = Counter(model.scope for model in view.models)
        scopes = sorted(counts, key=lambda name: (-counts[name], name))
        scope = query.get("scope", "") if query.get("scope", "") in counts else scopes[0]
        # Models change far less often than a watched repository is looked at: what is drawn is kept until they do.
        part = seen.lineage(scope, lambda: _part(view, scope))
    studies = [one.news for one in board.studies.all() if not one.news.is_over]
    return page_of("lineage.html.j2", board, seen, scopes=scopes, scope=scope, part=part, studies=studies)


def _part(view: RepositoryView, scope: str) -> str:
    """Return the part that changes only with a new view of the repository."""
    models = [model for model in view.models if model.scope == scope]
    tree = lineage_tree(models)
    levels = min(MOST_LEVELS, max((row.depth for row in tree.rows), default=0)) + 1
    drawn = [row.model for row in tree.rows]
    return render(
        "lineage_part.html.j2",
        models=models,
        sharing=sum(model.state == "published" and model.tensors > model.own_tensors for model in models),
        scope=scope,
        metric=next((model.objective for model in drawn if model.objective), None) or "quality",
        rows=list(zip(tree.rows, say_qualities([model.quality for model in drawn]), strict=True)),
        gutter=partial(_gutter, levels),
        left_out=tree.left_out,
        untold=view.models_in_all - len(view.models),
    )


def _gutter(levels: int, row: TreeRow) -> Markup:
    """Return the tree lines of one row, and the model's mark."""
    depth = min(row.depth, levels - 1)
    middle, lines, dashed = ROW / 2, "", []
    # Lines to the left of the row's own level belong to rows above; the outermost level has none.
    for level, passes in enumerate(row.open[1 : depth + 1] if depth == row.depth else ()):
        if passes:
            lines += f"M{level * LEVEL + 8} 0V{ROW}"
    x = depth * LEVEL + 8
    if row.depth:
        bend = f"M{x - LEVEL} 0V{middle}H{x}"
        if row.is_direct:
            lines += bend
        else:
            dashed = [shape("path", d=bend, class_="branch dashed")]
        if row.has_next:
            # From the bend down to the sibling that follows.
            lines += f"M{x - LEVEL} {middle}V{ROW}"
    if row.has_children:
        lines += f"M{x} {middle}V{ROW}"
    said = _said(row)
    inside = shape("path", d=lines or "M0 0", class_="branch"), *dashed, _mark(row, x, middle, said)
    return drawing(levels * LEVEL, ROW, *inside, width=levels * LEVEL, height=ROW, aria_label=said)


def _said(row: TreeRow) -> str:
    state = "living" if row.model.state == "published" else row.model.state
    best = ", the best" if row.is_best else ""
    above = f", inherited from {row.model.ancestor}" if row.model.ancestor else ""
    return f"level {row.depth + 1}, {state}{best}{above}"


def _mark(row: TreeRow, x: float, y: float, said: str) -> Markup:
    if row.model.state != "published":
        return shape("rect", title=said, x=x - 4.5, y=y - 4.5, width=9, height=9, class_="retired")
    if row.is_best:
        return shape("polygon", title=said, points=STAR, transform=f"translate({x} {y})", class_="top")
    # From 0.12, so that the worst model is still seen, and is darker than one without a quality.
    shade = 0.08 if row.shade is None else 0.12 + 0.88 * row.shade
    return shape("circle", title=said, cx=x, cy=y, r=5, class_="living", fill_opacity=f"{shade:.2f}")


LINEAGE = DashboardPage(
    name="lineage",
    render=lineage_now,
    arguments=("repository", "scope"),
    # It links to the studies that run, and links to those that ended must go.
    changes=lambda board: (board.repositories.model_changes, board.studies.changes),
    wait_s=lambda board: board.repositories.next_s(),
    asks_providers=True,
)
