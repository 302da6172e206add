"""daskevo's pages as routes of the scheduler's web server: read-only, without access to the network or passwords."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from markupsafe import Markup
from tornado.web import Application, RequestHandler

import daskevo_plugins.dashboard
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.lineage_page import LINEAGE
from daskevo_plugins.dashboard.news_pages import SEARCH, STUDIES
from daskevo_plugins.dashboard.page import DashboardPage
from daskevo_plugins.dashboard.repository_page import REPOSITORY
from daskevo_plugins.dashboard.templates import render

PAGES = {page.name: page for page in (SEARCH, REPOSITORY, LINEAGE, STUDIES)}
"""All pages by name, in the order of the navigation; a new page is a file, and its line here."""
LONGEST = 500
"""Maximum number of characters of an argument of a page's address."""
RULES = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'"
"""Content security policy; colours and styles of drawings are inline."""


def application(board: Board, prefix: str, look: Callable[[], Awaitable[None]]) -> Application:
    """Return a web application with all pages.

    Parameters
    ----------
    prefix:
        Prefix of the dashboard, as ``/prefix``; empty if it has none.
    look:
        Starts a query of the repositories, if one is due.
    """
    shared = {"board": board, "look": look}
    return Application(
        [
            (f"{prefix}/daskevo/?", _Front, shared),
            (f"{prefix}/daskevo/page.css", _File, {"name": "page.css", "kind": "text/css"}),
            (f"{prefix}/daskevo/page.js", _File, {"name": "page.js", "kind": "text/javascript"}),
            *((f"{prefix}/daskevo/{name}", _Page, {"page": page, **shared}) for name, page in PAGES.items()),
            *((f"{prefix}/daskevo/{name}/now", _Now, {"page": page, **shared}) for name, page in PAGES.items()),
        ]
    )


def frame(name: str, content: str, version: str) -> str:
    """Return a complete page around its content."""
    # The content comes from a template that has escaped all that was put in: it is markup here.
    title, inside = f"daskevo: {name}", Markup(content)
    return str(render("frame.html.j2", title=title, name=name, pages=PAGES, content=inside, version=version))


class _Safe(RequestHandler):
    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", RULES)
        # Names of others are on these pages: no browser may take a response for another type than it says.
        self.set_header("X-Content-Type-Options", "nosniff")
        # A copy from a cache would show old figures as the present ones.
        self.set_header("Cache-Control", "no-store")

    def compute_etag(self) -> None:
        """Skip Tornado's digest of the response: these responses are never cached."""


class _Front(_Safe):
    def initialize(self, board: Board, look: Callable[[], Awaitable[None]]) -> None:
        self._board, self._look = board, look

    async def get(self) -> None:
        await self._look()
        # A relative redirect: behind a proxy only the browser knows the full address.
        slash = "" if str(self.request.path).endswith("/") else "daskevo/"
        self.redirect(f"{slash}{self._board.front()}")


class _File(_Safe):
    def initialize(self, name: str, kind: str) -> None:
        # Read from the package, which may be a zip file.
        self._text = resources.files(daskevo_plugins.dashboard).joinpath("templates", name).read_text("utf-8")
        self._kind = kind

    def get(self) -> None:
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.finish(self._text)


class _Page(_Safe):
    def initialize(self, page: DashboardPage, board: Board, look: Callable[[], Awaitable[None]]) -> None:
        self._page, self._board, self._look = page, board, look

    async def get(self) -> None:
        await self._looked()
        self.finish(frame(self._page.name, self._content(), self._page.version(self._board)))

    async def _looked(self) -> None:
        self._board.look(self._page.name)
        # Only now and only for these pages: an open repository that nobody watches costs its providers nothing.
        if self._page.asks_providers:
            await self._look()

    def _content(self) -> str:
        query = {name: self.get_query_argument(name, "")[:LONGEST] for name in self._page.arguments}
        return self._page.render(self._board, query)


class _Now(_Page):
    """The page's content, if it differs from the version that the browser has."""

    async def get(self) -> None:
        await self._looked()
        # Nothing is awaited between version and content: both are of the same moment.
        version = self._page.version(self._board)
        self.set_header("X-Daskevo-Next", f"{self._page.next_s(self._board):.2f}")
        if self.get_query_argument("seen", "") == version:
            # No content: the browser keeps what it has, and only its ages go on.
            self.set_status(204)
            self.finish()
            return
        self.set_header("X-Daskevo-Version", version)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self._content())
