"""The lineage page of a repository as HTML: the tree of published models, and what each has stored for others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.lineage_tree import LineageTree, TreeRow, lineage_tree
from daskevo_plugins.dashboard.markup import Html, age, cards, empty, html, link, table
from daskevo_plugins.dashboard.repository_page import NOTHING, choose, trouble_of
from daskevo_plugins.dashboard.repository_view import ModelRow, RepositoryView
from daskevo_plugins.formatting import say_bytes, say_count, say_qualities, say_share

LEVEL, ROW = 16, 26
"""Width of a level of the tree, and height of a row."""
MOST_LEVELS = 24
"""Deeper levels are drawn at this one."""

_NO_MODELS = (
    "This repository has no models yet. They appear as soon as the first evaluation has put one, or "
    "<code>child.put()</code> was called inside <code>repository.inherit(model)</code>."
)
_HOW_TO_READ = (
    "A model stands below the one that it inherited from. The darker its dot, the better its quality among the living; "
    "a star is the best. A square has been retired and stays as long as heirs use tensors of it. A dashed line: the "
    "ancestor itself is gone, and the model above stored most of what is inherited. Of others a model uses what it "
    "inherited and did not train any further; what it changed, it put itself."
)


def lineage_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's content; the arguments `repository` and `scope` select it."""
    seen = board.sights.one(query.get("repository", ""))
    if seen is None:
        return trouble_of(board) or empty(NOTHING)
    sight = seen.sight
    unchanged = age(board.clock() - seen.models_since_s, ago=False)
    head = f'{choose(board, seen)}<p class="quiet">unchanged for {unchanged}</p>{trouble_of(board, sight.key)}'
    studies = _studies(board)
    if not sight.models:
        return f"<h2>Lineage</h2>{head}{studies}{empty(_NO_MODELS)}"
    scopes = Counter(model.scope for model in sight.models)
    names = sorted(scopes, key=lambda name: (-scopes[name], name))
    scope = query.get("scope", "") if query.get("scope", "") in scopes else names[0]
    drawn = seen.lineage(scope, lambda: _part(sight, scope))
    return f"<h2>Lineage of {html(scope)}</h2>{head}{_choose_scope(names, scope, sight)}{studies}{drawn}"


def _part(sight: RepositoryView, scope: str) -> str:
    """Return the part that changes only with a new view of the repository."""
    models = [model for model in sight.models if model.scope == scope]
    return cards(_cards(models)) + _drawn(lineage_tree(models), sight, scope)


def _choose_scope(names: Sequence[str], scope: str, sight: RepositoryView) -> str:
    if len(names) < 2:
        return ""
    links = ", ".join(link(name, is_here=name == scope, repository=sight.key, scope=name) for name in names[:20])
    return f'<p class="quiet">Scopes: {links}</p>'


def _studies(board: Board) -> str:
    running = [one.news for one in board.studies.all() if not one.news.is_over]
    links = ", ".join(link(news.name, page="studies", study=news.study) for news in running[:5])
    return f"<p>Studies that run, with their stage trees: {links}</p>" if links else ""


def _cards(models: Sequence[ModelRow]) -> list[tuple[object, object, object]]:
    living = [model for model in models if model.state == "published"]
    inherited = sum(model.ancestor is not None for model in living)
    sharing = sum(model.tensors > model.own_tensors for model in living)
    own, full = sum(model.own_bytes for model in living), sum(model.full_bytes for model in living)
    givers = [model for model in models if model.heirs]
    retired = [model for model in models if model.state != "published"]
    share = say_share(1 - own / full) if full else "–"
    given = say_bytes(sum(model.given_bytes for model in retired))
    return [
        ("living models", f"{len(living):,}", f"{inherited:,} inherited, {sharing:,} still share tensors"),
        ("shared, of their bytes", share, f"they put {say_bytes(own)}, full copies: {say_bytes(full)}"),
        (
            "models that others use",
            f"{len(givers):,}",
            f"most: {say_count(max((one.heirs for one in givers), default=0), 'heir')}",
        ),
        ("retired, still needed", f"{len(retired):,}", f"{given} of theirs are in use"),
    ]


def _drawn(tree: LineageTree, sight: RepositoryView, scope: str) -> str:
    levels = min(MOST_LEVELS, max((row.depth for row in tree.rows), default=0)) + 1
    rows = [
        (
            Html(_gutter(row, levels) + f'<span class="model">{html(row.model.model_id)}{_standing(row.model)}</span>'),
            quality,
            _inherits(row.model),
            say_bytes(row.model.own_bytes),
            _gives(row),
        )
        for row, quality in zip(tree.rows, say_qualities([row.model.quality for row in tree.rows]), strict=True)
    ]
    untold = sight.models_in_all - len(sight.models)
    more = f" {tree.left_out:,} more models are not drawn: the best, those with the most heirs and their lines are."
    said = (more if tree.left_out else "") + (f" Providers did not tell of {untold:,} more." if untold > 0 else "")
    metric = next((row.model.objective for row in tree.rows if row.model.objective), None) or "quality"
    heads = ("model", metric, "uses of others", "put itself", "contributes")
    drawn = table(f"Who inherited from whom in {scope}", heads, rows, numbers=(1, 3))
    return f'<div class="lineage">{drawn}</div><p class="quiet">{_HOW_TO_READ}{html(said)}</p>'


def _standing(model: ModelRow) -> str:
    return "" if model.state == "published" else f" ({model.state})"


def _inherits(model: ModelRow) -> str:
    if model.ancestor is None:
        return "from scratch"
    return f"{model.tensors - model.own_tensors:,} of {say_count(model.tensors, 'tensor')}"


def _gives(row: TreeRow) -> str:
    model = row.model
    if not model.heirs:
        return ""
    drawn = f", {row.left_out:,} of them not drawn" if row.left_out else ""
    tensors = f"{say_count(model.given_tensors, 'tensor')}, {say_bytes(model.given_bytes)}"
    return f"{tensors} to {say_count(model.heirs, 'heir')}{drawn}"


def _gutter(row: TreeRow, levels: int) -> str:
    """Return the tree lines of one row, and the model's mark."""
    depth = min(row.depth, levels - 1)
    middle, lines, dashed = ROW / 2, "", ""
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
            dashed = f'<path d="{bend}" class="branch dashed"/>'
        if row.has_next:
            lines += f"M{x - LEVEL} {middle}V{ROW}"
    if row.has_children:
        lines += f"M{x} {middle}V{ROW}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{levels * LEVEL}" height="{ROW}" role="img" '
        f'aria-label="{html(_said(row))}"><path d="{lines or "M0 0"}" class="branch"/>'
        f"{dashed}{_mark(row, x, middle)}</svg>"
    )


def _said(row: TreeRow) -> str:
    state = "living" if row.model.state == "published" else row.model.state
    best = ", the best" if row.is_best else ""
    above = f", inherited from {row.model.ancestor}" if row.model.ancestor else ""
    return f"level {row.depth + 1}, {state}{best}{above}"


def _mark(row: TreeRow, x: float, y: float) -> str:
    words = f"<title>{html(_said(row))}</title>"
    if row.model.state != "published":
        return f'<rect x="{x - 4.5}" y="{y - 4.5}" width="9" height="9" class="retired">{words}</rect>'
    if row.is_best:
        points = "0,-7.5 2,-2.6 7.2,-2.3 3.2,1 4.5,6.1 0,3.3 -4.5,6.1 -3.2,1 -7.2,-2.3 -2,-2.6"
        return f'<polygon points="{points}" transform="translate({x} {y})" class="top">{words}</polygon>'
    shade = 0.08 if row.shade is None else 0.12 + 0.88 * row.shade
    return f'<circle cx="{x}" cy="{y}" r="5" class="living" fill-opacity="{shade:.2f}">{words}</circle>'
