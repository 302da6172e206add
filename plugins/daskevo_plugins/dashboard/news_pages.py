"""The pages of searches and studies as HTML, made from the board alone."""

from __future__ import annotations

from typing import Any

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.latest_news import Shelf
from daskevo_plugins.dashboard.templates import render


def studies_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `study` selects the study whose tree is shown."""
    return _page(board, board.studies, query, "study", "studies")


def search_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `search` selects the search."""
    return _page(board, board.searches, query, "search", "searches")


def _page(board: Board, shelf: Shelf[Any], query: dict[str, str], which: str, several: str) -> str:
    shown = shelf.one(query.get(which, ""))
    parts: dict[str, Any] = {
        "shown": shown,
        "all": shelf.all(),
        "now": board.clock(),
        "which": which,
        "several": several,
    }
    return str(render("news.html.j2", **parts))
