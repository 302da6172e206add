"""What the web server and the scheduler need to know of a page; :mod:`daskevo_plugins.dashboard.pages` lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from daskevo.types import JSON
from daskevo_plugins.dashboard.board import Board

LEAST_S, MOST_S = 1.0, 4.0
"""Limits of the seconds after which a browser asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardPage:
    """A page of the dashboard.

    Parameters
    ----------
    name:
        Its address below ``/daskevo``, and its title.
    render:
        Returns the content; the second argument has the `arguments` of the address.
    arguments:
        Arguments of the address, which select what is shown.
    changes:
        Returns counters, one of which grows whenever the content changes.
    wait_s:
        Returns the seconds until the content may change.
    asks_providers:
        Whether a request for the page queries providers, if a query is due.
    operation, take:
        Name of the scheduler operation that receives news for the page, and what stores them; None: it has no news.
    """

    name: str
    render: Callable[[Board, dict[str, str]], str]
    arguments: tuple[str, ...]
    changes: Callable[[Board], tuple[int, ...]]
    wait_s: Callable[[Board], float]
    asks_providers: bool = False
    operation: str | None = None
    take: Callable[[Board, JSON], None] | None = None

    def version(self, board: Board) -> str:
        """Return a version that changes whenever the content changes."""
        return "-".join(map(str, (board.instance, *self.changes(board))))

    def next_s(self, board: Board) -> float:
        """Return the seconds after which a browser asks again."""
        return min(MOST_S, max(LEAST_S, self.wait_s(board)))
