"""daskevo's pages as routes of a scheduler's web server: no network, no password, nothing that changes anything."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

from tornado.web import Application, RequestHandler

import daskevo_plugins.dashboard
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.colours import style_variables
from daskevo_plugins.dashboard.studies_page import studies_now

PAGES = ("studies",)
"""Names of all pages: their addresses and, with a capital, what they are called."""
RULES = "default-src 'none'; style-src 'self' 'unsafe-inline'; script-src 'self'; connect-src 'self'; base-uri 'none'"
"""What a browser may load for a page: inline are the colours and the drawings' own styles."""


def application(board: Board, prefix: str) -> Application:
    """Return all pages as an application.

    Parameters
    ----------
    prefix:
        Of the dashboard, as ``/prefix``; empty if it has none.
    """
    return Application(
        [
            (f"{prefix}/daskevo/?", _Front),
            (f"{prefix}/daskevo/page.css", _File, {"name": "page.css", "kind": "text/css"}),
            (f"{prefix}/daskevo/page.js", _File, {"name": "page.js", "kind": "text/javascript"}),
            (f"{prefix}/daskevo/studies", _Page, {"name": "studies", "board": board, "now": studies_now}),
            (f"{prefix}/daskevo/studies/now", _Now, {"board": board, "now": studies_now}),
        ]
    )


def frame(name: str, content: str, version: str) -> str:
    """Return a page around what it shows."""
    colours = style_variables()
    here = {page: ' aria-current="page"' if page == name else "" for page in PAGES}
    tabs = "".join(f'<a href="{page}"{here[page]}>{page.title()}</a>' for page in PAGES)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>daskevo: {name}</title>
<style>:root {{ {colours["light"]} }} @media (prefers-color-scheme: dark) {{ :root {{ {colours["dark"]} }} }}</style>
<link rel="stylesheet" href="page.css">
<noscript><meta http-equiv="refresh" content="5"></noscript>
</head>
<body>
<nav><a href="../status">Dask</a>{tabs}</nav>
<p id="lost" hidden>The scheduler does not answer. What is shown is as it was then.</p>
<main data-version="{version}" data-source="{name}/now">
{content}
</main>
<script src="page.js"></script>
</body>
</html>
"""


class _Safe(RequestHandler):
    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", RULES)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")


class _Front(_Safe):
    def get(self) -> None:
        # Where a proxy stands in front, only the browser knows the whole address.
        slash = "" if str(self.request.path).endswith("/") else "daskevo/"
        self.redirect(f"{slash}{PAGES[0]}")


class _File(_Safe):
    def initialize(self, name: str, kind: str) -> None:
        self._text = resources.files(daskevo_plugins.dashboard).joinpath(name).read_text("utf-8")
        self._kind = kind

    def get(self) -> None:
        self.set_header("Content-Type", f"{self._kind}; charset=utf-8")
        self.finish(self._text)


class _Page(_Safe):
    def initialize(self, name: str, board: Board, now: Callable[[Board, str], str]) -> None:
        self._name, self._board, self._now = name, board, now

    def get(self) -> None:
        self._board.look()
        self.finish(
            frame(self._name, self._now(self._board, self.get_query_argument("study", "")), self._board.version)
        )


class _Now(_Safe):
    """What the page shows, if that is another than the browser has."""

    def initialize(self, board: Board, now: Callable[[Board, str], str]) -> None:
        self._board, self._now = board, now

    def get(self) -> None:
        self._board.look()
        if self.get_query_argument("seen", "") == self._board.version:
            self.set_status(204)
            self.finish()
            return
        self.set_header("X-Daskevo-Version", self._board.version)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(self._now(self._board, self.get_query_argument("study", "")))
