"""The pages of searches and studies as HTML, made from the board alone."""

from __future__ import annotations

from typing import Any

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.latest_news import LatestNews
from daskevo_plugins.dashboard.page import LEAST_S, MOST_S, DashboardPage
from daskevo_plugins.dashboard.templates import render


def studies_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `study` selects the study whose tree is shown."""
    return _page(board, board.studies, query, "study", "studies")


def search_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `search` selects the search."""
    return _page(board, board.searches, query, "search", "searches")


def _page(board: Board, latest: LatestNews[Any], query: dict[str, str], which: str, several: str) -> str:
    shown = latest.one(query.get(which, ""))
    return render("news.html.j2", shown=shown, all=latest.all(), now=board.clock(), which=which, several=several)


def _wait_s(latest: LatestNews[Any]) -> float:
    # Nothing changes while nothing runs, but a search may begin at any moment.
    return LEAST_S if latest.has_running else MOST_S


SEARCH = DashboardPage(
    name="search",
    render=search_now,
    arguments=("search",),
    changes=lambda board: (board.searches.changes,),
    wait_s=lambda board: _wait_s(board.searches),
    operation="daskevo_dashboard_search",
    take=Board.take_search,
)
STUDIES = DashboardPage(
    name="studies",
    render=studies_now,
    arguments=("study",),
    changes=lambda board: (board.studies.changes,),
    wait_s=lambda board: _wait_s(board.studies),
    operation="daskevo_dashboard_study",
    take=Board.take_study,
)
