"""The pages of searches and studies as HTML, made from the board alone.

All text from news is escaped; all HTML is made here.
"""

from __future__ import annotations

from typing import Any

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.latest_news import Shelf, Shown
from daskevo_plugins.dashboard.markup import age, choice_of, empty, html, name_of, standing

_NO_STUDY = (
    "No study has been seen on this cluster yet. One that is begun with <code>daskevo tune PROBLEM</code> or "
    "<code>daskevo_workflows.tune.study</code> appears here by itself, within five seconds. Searches of architectures "
    'have <a href="search">a page of their own</a>.'
)
_NO_SEARCH = (
    "No search has been seen on this cluster yet. One that is begun with <code>daskevo nas PROBLEM</code> or "
    "<code>daskevo_workflows.nas.search</code> appears here by itself, within five seconds. Studies of "
    'hyper-parameters have <a href="studies">a page of their own</a>, and <a href="repository">repositories</a>, too.'
)


def studies_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `study` selects the study whose tree is shown."""
    return _page(board, board.studies, query, "study", "studies", _NO_STUDY)


def search_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `search` selects the search."""
    return _page(board, board.searches, query, "search", "searches", _NO_SEARCH)


def _page(board: Board, shelf: Shelf[Any], query: dict[str, str], one: str, several: str, nothing: str) -> str:
    shown = shelf.one(query.get(one, ""))
    if shown is None:
        return empty(nothing)
    now = board.clock()
    there = shelf.all()
    every = choice_of(several, one, there, shown, now)
    # Ages in it refer to the time at which the news came.
    part = f'<div data-heard="{max(0.0, now - shown.at_s):.1f}">{shown.rendered}</div>'
    return f"{every}{_head(shown, name_of(shown, there), now)}{part}"


def _head(shown: Shown[Any], name: str, now: float) -> str:
    news = shown.news
    said = getattr(news, "said", "")
    facts = " · ".join(f"{html(name)}: {html(words)}" for name, words in getattr(news, "facts", ()))
    return (
        f'<h2>{html(name)}</h2><p class="quiet">{standing(news.standing)}{html(f": {said}" if said else "")} · '
        f"last news {age(now - shown.at_s)}</p>{f'<p class=quiet>{facts}</p>' if facts else ''}"
    )
