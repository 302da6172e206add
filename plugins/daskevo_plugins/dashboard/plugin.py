"""The SchedulerPlugin that puts daskevo's pages on a scheduler's dashboard and takes in what they show."""

from __future__ import annotations

import logging
from typing import Any

from distributed import SchedulerPlugin

from daskevo.types import JSON
from daskevo.wire.dask_private import pages, plots
from daskevo.wire.transport import answer
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.pages import PAGES, application
from daskevo_plugins.dashboard.poll import Looker

logger = logging.getLogger(__name__)

HANDLERS = {"studies": "daskevo_dashboard_study", "search": "daskevo_dashboard_search"}
"""By page: name of the operation that takes in news for it."""


class DashboardPlugin(SchedulerPlugin):  # type: ignore[misc]
    """daskevo's pages on one scheduler.

    It shows nothing, and says so, where the dashboard is turned off.
    """

    idempotent = True
    name = "daskevo-dashboard"

    def start(self, scheduler: Any) -> None:
        self.board = Board()
        prefix = dashboard_prefix(scheduler)
        self.path = None if prefix is None else f"{prefix}/daskevo"
        """Where the pages are on the scheduler's web server; None: nowhere."""
        self._looker = Looker(scheduler, self.board)
        if prefix is not None:
            scheduler.http_application.add_application(application(self.board, prefix, self._looker.look))
            _list_in_navigation(scheduler)
            _list_for_jupyter(scheduler, prefix)
        scheduler.handlers[HANDLERS["studies"]] = self._study
        scheduler.handlers[HANDLERS["search"]] = self._search

    async def before_close(self) -> None:
        """End what is under way."""
        await self._looker.close()

    async def _study(self, news: JSON = None) -> dict[str, Any]:
        """Take in news of a study, if there are some; answer whether somebody watches, and where."""
        return await answer("study", self._take, {"page": "studies", "news": news})

    async def _search(self, news: JSON = None) -> dict[str, Any]:
        """Do the same for a search."""
        return await answer("search", self._take, {"page": "search", "news": news})

    def _take(self, page: str, news: JSON) -> dict[str, JSON]:
        if self.path is None:
            return {"path": None, "is_watched": False}
        if news is not None:
            (self.board.take_study if page == "studies" else self.board.take_search)(news)
        return {"path": f"{self.path}/{page}", "is_watched": self.board.is_watched(page)}

    def remove_client(self, scheduler: Any, client: str) -> None:
        """What a client led is not led any more."""
        self.board.left(client)


def show_pages(scheduler: Any) -> None:
    """Put the pages on a scheduler's dashboard, from within it, unless they are there.

    What fails is logged, and no more: nobody who has something to show fails because it is not shown.
    """
    if DashboardPlugin.name in scheduler.plugins:
        return
    try:
        plugin = DashboardPlugin()
        plugin.start(scheduler)
        scheduler.add_plugin(plugin, name=plugin.name)
    except Exception:
        logger.exception("daskevo: its pages can't be put on this scheduler's dashboard")


def dashboard_prefix(scheduler: Any) -> str | None:
    """Return the prefix of a scheduler's dashboard, as ``/prefix`` or empty; None if it shows none.

    One that lacks bokeh has a page that says so, and counts.
    """
    web = getattr(scheduler, "http_application", None)
    if web is None:
        return None
    for one in web.applications:
        if any(kind.__name__ == "BokehTornado" for kind in type(one).__mro__):
            return str(one.prefix)
    for rule in web.wildcard_router.rules:
        if getattr(rule.target, "__name__", "") == "MissingBokeh":
            return str(rule.matcher.regex.pattern).rstrip("$").removesuffix("/status")
    return None


def _list_in_navigation(scheduler: Any) -> None:
    """Have Dask's own pages link to ours; they take the names from this list whenever one is opened."""
    try:
        linked = pages(scheduler)
        if "daskevo" not in linked:
            linked.append("daskevo")
    except (ImportError, LookupError, AttributeError, TypeError) as error:
        logger.info("daskevo: its pages are not in the dashboard's navigation: %r", error)


def _list_for_jupyter(scheduler: Any, prefix: str) -> None:
    """Have JupyterLab's Dask extension list our pages among the plots."""
    try:

        class Plots(plots()):  # type: ignore[misc]
            def write(self, chunk: Any) -> None:
                if isinstance(chunk, dict):
                    ours = {f"daskevo {page.title()}": f"/daskevo/{page}" for page in PAGES}
                    chunk = {**chunk, **ours}
                super().write(chunk)

        # Before Dask's own route of that name.
        rule = (f"{prefix}/individual-plots.json", Plots, {"dask_server": scheduler})
        scheduler.http_application.add_handlers(".*$", [rule])
    except (ImportError, AttributeError, TypeError) as error:
        logger.info("daskevo: its pages are not in JupyterLab's list: %r", error)
