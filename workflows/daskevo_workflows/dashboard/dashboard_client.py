"""Send news to the dashboard on the scheduler (:mod:`daskevo_plugins.dashboard`), in the background.

Senders neither wait nor fail: news are sent seldom, and errors are logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from daskevo.errors import NotDeployed
from daskevo.types import JSON
from daskevo.wire.transport import value_of
from daskevo_plugins.dashboard.plugin import HANDLERS, DashboardPlugin
from daskevo_plugins.formatting import plain

logger = logging.getLogger(__name__)

Page = Literal["search", "studies"]

WATCHED_S, UNWATCHED_S = 1.0, 5.0
"""Seconds between two snapshots, while a page is watched and while it is not."""
SHARE = 0.02
"""Maximum share of time spent on snapshots: large ones are made less often."""
ANSWER_S = 10.0
LAST_WORD_S = 2.0
"""Longest wait, at the end, for the last news to arrive, if earlier ones did."""
MOST_FAILURES = 3
AGAIN_S = 30.0
"""Pause after an error, and interval at which unchanged news are repeated, since a scheduler may have lost them."""


class SentNews(Protocol):
    """News to send; compared with those sent before."""

    @property
    def key(self) -> str: ...

    @property
    def is_over(self) -> bool: ...

    def to_json(self) -> JSON: ...


class Picture(Protocol):
    """A snapshot from which news can be made in any thread."""

    def news(self, client: str) -> SentNews:
        """Return the news; `client` is Dask's id of the sending client."""


class Sender:
    """Sends news for one page of a scheduler's dashboard.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    page:
        The page that the news are for.
    """

    def __init__(self, client: Any, page: Page) -> None:
        self._client = client
        self._page: Page = page
        self._sent: dict[str, tuple[SentNews, float]] = {}
        self._next = 0.0
        self._one_at_a_time = asyncio.Lock()
        self._on_its_way: Any = None
        self._is_watched = False
        self._is_there = False
        self._failures = 0
        self.given_up = False
        """Whether sending has stopped for good."""

    # In the sender's thread

    def is_due(self) -> bool:
        """Tell whether a snapshot is due; if so, schedule the next one."""
        if self.given_up or time.monotonic() < self._next:
            return False
        # A scheduler that answers slowly gets no queue of news: the next snapshot is newer anyway.
        if self._on_its_way is not None and not self._on_its_way.done():
            return False
        self._next = time.monotonic() + (WATCHED_S if self._is_watched else UNWATCHED_S)
        return True

    @property
    def has_last_word(self) -> bool:
        """Whether a final message may be sent: no error occurred so far."""
        return not (self.given_up or self._failures)

    def send(self, pictures: Sequence[Picture], spent_s: float = 0.0) -> None:
        """Send snapshots; `spent_s` is the processor time that taking them took."""
        self._spend(spent_s)
        loop, work = self._client.loop.asyncio_loop, self._send(pictures)
        try:
            self._on_its_way = asyncio.run_coroutine_threadsafe(work, loop)
        except BaseException:
            work.close()  # of a client that is closed, whose loop takes nothing any more
            raise

    def wait(self) -> None:
        """Wait briefly for the last news to arrive."""
        if self._on_its_way is not None:
            with contextlib.suppress(Exception):
                self._on_its_way.result(LAST_WORD_S)

    def _spend(self, seconds: float) -> None:
        # Processor time, so that a busy machine does not make news rarer.
        self._next = max(self._next, time.monotonic() + seconds / SHARE)

    # In the client's event loop

    async def _send(self, pictures: Sequence[Picture]) -> None:
        try:
            # The last news may be sent while earlier ones are under way, and must not be overtaken by them.
            async with self._one_at_a_time:
                path = None
                for picture in pictures:
                    path = await self._tell(picture)
                if not pictures:
                    # Nothing to tell, but the answer says whether somebody watches, and whether the scheduler is still
                    # there.
                    path = (await self._ask())["path"]
            # No path: the scheduler has no dashboard, and will not get one while it runs.
            self._failures, self.given_up = 0, path is None
        except Exception as error:  # noqa: BLE001 - an older scheduler, none, one without daskevo: no matter for who sends
            self._failures += 1
            self._is_there = False
            self.given_up = self._failures >= MOST_FAILURES
            self._next = time.monotonic() + AGAIN_S
            logger.info("nothing was shown on the dashboard: %s: %s", type(error).__name__, error)

    async def _tell(self, picture: Picture) -> str | None:
        # In a thread: this loop also carries the heartbeats of the Dask client, and a large study has much to tell.
        news, spent_s = await asyncio.to_thread(_made, picture, self._client.id)
        self._spend(spent_s)
        now = time.monotonic()
        before, at_s = self._sent.get(news.key, (None, 0.0))
        # Unchanged news are not sent, but the question whether the page is watched is asked all the same.
        is_known = news == before and now - at_s < AGAIN_S
        answer = await self._ask(None if is_known else news)
        if news.is_over:
            self._sent.pop(news.key, None)
        elif not is_known:
            self._sent[news.key] = news, now
        self._is_watched = answer["is_watched"]
        return answer["path"]  # type: ignore[no-any-return]

    async def _ask(self, news: SentNews | None = None) -> dict[str, Any]:
        try:
            answer = await ask(self._client, news, page=self._page, is_there=self._is_there)
        except NotDeployed:
            if not self._is_there:
                raise
            # Another scheduler now has this address, and doesn't know the earlier news.
            self._sent.clear()
            answer = await ask(self._client, news, page=self._page)
        self._is_there = True
        return answer


def _made(picture: Picture, client: str) -> tuple[SentNews, float]:
    """Return a snapshot's news, and the processor time, in seconds, of making them."""
    began_s = time.thread_time()
    return picture.news(client), time.thread_time() - began_s


async def ask(
    client: Any, news: SentNews | None = None, *, page: Page = "studies", is_there: bool = False
) -> dict[str, Any]:
    """Install the plugin on the client's scheduler if necessary, and send it news, if any.

    Parameters
    ----------
    page:
        The page that they are for.
    is_there:
        Whether the plugin was there before; a scheduler without it logs a traceback when asked.

    Returns
    -------
    dict
        ``path`` of the page on the scheduler's web server (None: it has no dashboard), and ``is_watched``.

    Raises
    ------
    NotDeployed
        If the plugin is missing and can't be installed.
    Exception
        Any exception of Dask, if the scheduler can't be reached or lacks this version of daskevo.
    """
    message = None if news is None else news.to_json()
    operation = getattr(client.scheduler, HANDLERS[page])
    if not is_there:
        # Only the first time: each registration pickles the plugin. One that is there already is kept, since it is
        # idempotent.
        await asyncio.wait_for(client.register_plugin(DashboardPlugin()), ANSWER_S)
    reply = await asyncio.wait_for(operation(news=message), ANSWER_S)
    if reply is None:
        raise NotDeployed(f"the scheduler at {client.scheduler.address} has no plugin for daskevo's dashboard pages")
    return value_of(reply)  # type: ignore[no-any-return]


def where_shown(client: Any, page: Page) -> tuple[str | None, str]:
    """Return the address of a page, or None and a sentence about why there is none and what to do.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    """

    async def path_of() -> Any:
        return (await ask(client, page=page))["path"]

    try:
        link = client.dashboard_link
        path = client.sync(path_of, callback_timeout=2 * ANSWER_S)
    except Exception as error:  # noqa: BLE001 - an older scheduler, none, one without daskevo: no matter for who asks
        said = f"{type(error).__name__}: {error}"
        logger.info("daskevo has no page on the dashboard: %s", said)
        return None, f"the scheduler does not take daskevo's pages ({plain(said, 200)}): start it with the same daskevo"
    if path is None:
        return None, "it is turned off at this scheduler: start it with its dashboard on (dask scheduler --dashboard)"
    found = beside(link, path)
    if found is None:
        return None, (
            f"Dask's configuration distributed.dashboard.link makes {plain(link, 200)!r}, which does not end in "
            f"/status: the page is {path} on the scheduler's web server"
        )
    return found, ""


def beside(link: str, path: str) -> str | None:
    """Return the address of a page of a dashboard, given that of its first page, which may go through a proxy.

    Examples
    --------
    >>> beside("http://10.0.0.1:8787/status", "/daskevo/studies")
    'http://10.0.0.1:8787/daskevo/studies'
    >>> beside("https://hub/user/me/proxy/8787/status", "/daskevo/studies")
    'https://hub/user/me/proxy/8787/daskevo/studies'
    >>> beside("http://10.0.0.1:8787/status", "/cluster-1/daskevo/studies")
    'http://10.0.0.1:8787/cluster-1/daskevo/studies'
    """
    base, found, _ = link.rpartition("/status")
    # A proxy's address may contain the dashboard's prefix already: it must not be there twice.
    prefix = path[: path.rindex("/daskevo/")]
    return (base.removesuffix(prefix) + path) if found else None
