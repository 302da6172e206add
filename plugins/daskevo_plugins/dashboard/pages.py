"""daskevo's pages as routes of the scheduler's web server: read-only, without access to the network or passwords."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from markupsafe import Markup
from tornado.web import Application, RequestHandler

import daskevo_plugins.dashboard
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.lineage_page import lineage_now
from daskevo_plugins.dashboard.news_pages import search_now, studies_now
from daskevo_plugins.dashboard.repository_page import repository_now
from daskevo_plugins.dashboard.templates import render

PAGES: dict[str, Callable[[Board, dict[str, str]], str]] = {
    "search": search_now,
    "repository": repository_now,
    "lineage": lineage_now,
    "studies": studies_now,
}
"""Names of all pages (also their addresses and titles), and the function that makes the content of each."""
LOOKED_AT = ("repository", "lineage")
"""Pages for which providers are queried."""
ARGUMENTS = ("search", "study", "repository", "scope")
"""Arguments of a page's address, which select what is shown."""
LONGEST = 500
"""Maximum number of characters of such an argument."""
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
            *((f"{prefix}/daskevo/{name}", _Page, {"name": name, **shared}) for name in PAGES),
            *((f"{prefix}/daskevo/{name}/now", _Now, {"name": name, **shared}) for name in PAGES),
        ]
    )


def frame(name: str, content: str, version: str) -> str:
    """Return a complete page around its content."""
    title, inside = f"daskevo: {name}", Markup(content)
    return str(render("frame.html.j2", title=title, name=name, pages=PAGES, content=inside, version=version))


class _Safe(RequestHandler):
    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", RULES)
        self.set_header("X-Content-Type-Options", "nosniff")
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
        self._text = resources.files(daskevo_plugins.dashboard).joinpath("templates", name).read_text("utf-8")
        self._kind = kind

    def get(self) -> None:
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.finish(self._text)


class _Page(_Safe):
    def initialize(self, name: str, board: Board, look: Callable[[], Awaitable[None]]) -> None:
        self._name, self._board, self._look = name, board, look

    async def get(self) -> None:
        await self._looked()
        self.finish(frame(self._name, self._content(), self._board.version(self._name)))

    async def _looked(self) -> None:
        self._board.look(self._name)
        if self._name in LOOKED_AT:
            await self._look()

    def _content(self) -> str:
        query = {name: self.get_query_argument(name, "")[:LONGEST] for name in ARGUMENTS}
        return PAGES[self._name](self._board, query)


class _Now(_Page):
    """The page's content, if it differs from the version that the browser has."""

    async def get(self) -> None:
        await self._looked()
        version = self._board.version(self._name)
        self.set_header("X-Daskevo-Next", f"{self._board.next_s(self._name):.2f}")
        if self.get_query_argument("seen", "") == version:
            self.set_status(204)
            self.finish()
            return
        self.set_header("X-Daskevo-Version", version)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self._content())
