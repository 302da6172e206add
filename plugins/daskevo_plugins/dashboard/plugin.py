"""The SchedulerPlugin that adds daskevo's pages to a scheduler's dashboard and receives news for them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from distributed import SchedulerPlugin

from daskevo.types import JSON
from daskevo.wire.dask_private import pages, plots
from daskevo.wire.transport import answer
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.page import DashboardPage
from daskevo_plugins.dashboard.pages import PAGES, application
from daskevo_plugins.dashboard.poll import Poller

logger = logging.getLogger(__name__)

HANDLERS = {page.name: page.operation for page in PAGES.values() if page.operation is not None}
"""Page -> name of the scheduler operation that receives news for it."""


class DashboardPlugin(SchedulerPlugin):  # type: ignore[misc]
    """daskevo's pages on one scheduler.

    If the dashboard is turned off there are no pages, and senders of news are told so.
    """

    # Each search, study and repository registers the plugin. Without this a second one would replace the board with an
    # empty one.
    idempotent = True
    name = "daskevo-dashboard"

    def start(self, scheduler: Any) -> None:
        self.board = Board()
        prefix = dashboard_prefix(scheduler)
        self.path = None if prefix is None else f"{prefix}/daskevo"
        """Path of the pages on the scheduler's web server; None: there are none."""
        self._poller = Poller(scheduler, self.board)
        if prefix is not None:
            scheduler.http_application.add_application(application(self.board, prefix, self._poller.look))
            _list_in_navigation(scheduler)
            _list_for_jupyter(scheduler, prefix)
        # Also where there is no dashboard: a missing handler would be an error at each sender, and a traceback in the
        # log.
        for name, operation in HANDLERS.items():
            scheduler.handlers[operation] = self._receiver(PAGES[name])

    async def before_close(self) -> None:
        """End queries that are under way."""
        await self._poller.close()

    def _receiver(self, page: DashboardPage) -> Callable[..., Awaitable[dict[str, Any]]]:
        # A function and not a partial, because Dask logs the `__name__` of each handler that it calls.
        async def receive(news: JSON = None) -> dict[str, Any]:
            """Store news for the page, if any; answer whether the page is watched, and its path."""
            return await answer(page.name, self._take, {"page": page, "news": news})

        return receive

    def _take(self, page: DashboardPage, news: JSON) -> dict[str, JSON]:
        # Nobody can see news here, and the sender stops when it hears that there is no path.
        if self.path is None:
            return {"path": None, "is_watched": False}
        if news is not None and page.take is not None:
            page.take(self.board, news)
        return {"path": f"{self.path}/{page.name}", "is_watched": self.board.is_watched(page.name)}

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Mark a client's searches and studies as gone when it disconnects."""
        self.board.left(client)


def show_pages(scheduler: Any) -> None:
    """Add the pages to a scheduler's dashboard, from within the scheduler, unless they are there.

    Errors are only logged: a search or repository must not fail because it can't be displayed.
    """
    if DashboardPlugin.name in scheduler.plugins:
        return
    try:
        plugin = DashboardPlugin()
        # Before `add_plugin`, which doesn't start plugins: one whose start failed is not listed, and is tried again
        # later.
        plugin.start(scheduler)
        scheduler.add_plugin(plugin, name=plugin.name)
    except Exception:
        logger.exception("daskevo: its pages can't be put on this scheduler's dashboard")


def dashboard_prefix(scheduler: Any) -> str | None:
    """Return the prefix of a scheduler's dashboard, as ``/prefix`` or empty; None if it has no dashboard.

    A scheduler without bokeh has a page that says so, and counts as having one.
    """
    web = getattr(scheduler, "http_application", None)
    if web is None:
        return None
    # By name, because bokeh may not be installed, and is not imported for this.
    for one in web.applications:
        if any(kind.__name__ == "BokehTornado" for kind in type(one).__mro__):
            return str(one.prefix)
    # Without bokeh Dask serves one page in place of its own; its route is the only place where the prefix is found.
    for rule in web.wildcard_router.rules:
        if getattr(rule.target, "__name__", "") == "MissingBokeh":
            return str(rule.matcher.regex.pattern).rstrip("$").removesuffix("/status")
    return None


def _list_in_navigation(scheduler: Any) -> None:
    """Add links to our pages on Dask's own pages, which read this list whenever one is opened."""
    try:
        linked = pages(scheduler)
        if "daskevo" not in linked:
            linked.append("daskevo")
    # What is used here is not documented by Dask: another version may lack it, and the pages work without these links.
    except (ImportError, LookupError, AttributeError, TypeError) as error:
        logger.info("daskevo: its pages are not in the dashboard's navigation: %r", error)


def _list_for_jupyter(scheduler: Any, prefix: str) -> None:
    """Add our pages to the plots of JupyterLab's Dask extension."""
    try:

        class Plots(plots()):  # type: ignore[misc]
            def write(self, chunk: Any) -> None:
                if isinstance(chunk, dict):
                    ours = {f"daskevo {page.title()}": f"/daskevo/{page}" for page in PAGES}
                    chunk = {**chunk, **ours}
                # Dask's handler makes the list and writes it at once: this is the only moment at which it can be added
                # to.
                super().write(chunk)

        # Before Dask's own route of the same name, so that ours is found first.
        rule = (f"{prefix}/individual-plots.json", Plots, {"dask_server": scheduler})
        scheduler.http_application.add_handlers(".*$", [rule])
    except (ImportError, AttributeError, TypeError) as error:
        logger.info("daskevo: its pages are not in JupyterLab's list: %r", error)
