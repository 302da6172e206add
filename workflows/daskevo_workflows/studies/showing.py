"""Studies on the dashboard: what a controller tells the scheduler, to be shown (:mod:`daskevo_plugins.dashboard`).

No study waits for it, or fails from it: news are sent beside everything else, seldom, and what goes wrong is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from daskevo.cluster.transport import value_of
from daskevo.errors import NotDeployed
from daskevo_plugins.dashboard.news import StudyNews
from daskevo_plugins.dashboard.plugin import HANDLER, DashboardPlugin
from daskevo_workflows.studies.picture import Picture

if TYPE_CHECKING:
    from daskevo_workflows.studies.controller import Controller
    from daskevo_workflows.studies.parts import Watcher

logger = logging.getLogger(__name__)

WATCHED_S, UNWATCHED_S = 1.0, 5.0
"""Between two pictures, while somebody looks and while nobody does."""
SHARE = 0.02
"""Of the time, at most, that pictures take: those of large studies are made less often."""
ANSWER_S = 10.0
LAST_WORD_S = 2.0
"""How long a study that ends waits for its last news to be taken in, if others were before."""
MOST_FAILURES = 3
AGAIN_S = 30.0
"""After it failed, and as often as news are sent that have been before: the scheduler may have lost them."""


class Showing:
    """Sends a controller's studies to the scheduler's dashboard.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._studies: dict[int, Watcher] = {}
        self._sent: dict[str, tuple[StudyNews, float]] = {}
        self._next = 0.0
        self._one_at_a_time = asyncio.Lock()
        self._on_its_way: Any = None
        self._is_watched = False
        self._is_there = False
        self._failures = 0
        self._given_up = False

    # In the controller's thread

    def look(self, controller: Controller) -> None:
        """Take pictures and have them sent, if it is time."""
        if self._given_up or time.monotonic() < self._next:
            return
        if self._on_its_way is not None and not self._on_its_way.done():
            return
        self._next = time.monotonic() + (WATCHED_S if self._is_watched else UNWATCHED_S)
        self._show(controller, controller.watchers)

    def close(self, controller: Controller) -> None:
        """Say that all studies are over."""
        if self._given_up or self._failures:
            return
        self._show(controller, [])
        if self._on_its_way is not None:
            with contextlib.suppress(Exception):
                self._on_its_way.result(LAST_WORD_S)

    def _show(self, controller: Controller, present: Sequence[Watcher]) -> None:
        began_s = time.thread_time()
        try:
            there = {id(study): study for study in present}
            gone = [study for number, study in self._studies.items() if number not in there]
            self._studies = there
            pictures = [study.picture(controller.scheduler, is_over=True) for study in gone]
            pictures += [study.picture(controller.scheduler) for study in present]
            self._spend(time.thread_time() - began_s)
            self._on_its_way = asyncio.run_coroutine_threadsafe(self._send(pictures), self._client.loop.asyncio_loop)
        except Exception:
            # Whatever is raised here would end all studies.
            logger.exception("studies can't be shown on the dashboard any more")
            self._given_up = True

    def _spend(self, seconds: float) -> None:
        # Of processor time: a machine that has others to do keeps nobody from looking.
        self._next = max(self._next, time.monotonic() + seconds / SHARE)

    # In the client's event loop

    async def _send(self, pictures: Sequence[Picture]) -> None:
        try:
            async with self._one_at_a_time:
                path = None
                for picture in pictures:
                    path = await self._tell(picture)
                if not pictures:
                    path = (await self._ask())["path"]
            self._failures, self._given_up = 0, path is None
        except Exception as error:  # noqa: BLE001 - an older scheduler, none, one without daskevo: no matter for a study
            self._failures += 1
            self._is_there = False
            self._given_up = self._failures >= MOST_FAILURES
            self._next = time.monotonic() + AGAIN_S
            logger.info("studies were not shown on the dashboard: %s: %s", type(error).__name__, error)

    async def _tell(self, picture: Picture) -> str | None:
        news, spent_s = await asyncio.to_thread(_made, picture, self._client.id)
        self._spend(spent_s)
        now = time.monotonic()
        before, at_s = self._sent.get(news.study, (None, 0.0))
        is_known = news == before and now - at_s < AGAIN_S
        answer = await self._ask(None if is_known else news)
        if news.is_over:
            self._sent.pop(news.study, None)
        elif not is_known:
            self._sent[news.study] = news, now
        self._is_watched = answer["is_watched"]
        return answer["path"]  # type: ignore[no-any-return]

    async def _ask(self, news: StudyNews | None = None) -> dict[str, Any]:
        answer = await ask(self._client, news, is_there=self._is_there)
        self._is_there = True
        return answer


def _made(picture: Picture, client: str) -> tuple[StudyNews, float]:
    """Return a picture's news, and the processor time that it took to make them, in seconds."""
    began_s = time.thread_time()
    return picture.news(client), time.thread_time() - began_s


async def ask(client: Any, news: StudyNews | None = None, *, is_there: bool = False) -> dict[str, Any]:
    """Put the plugin on the client's scheduler if it isn't there, and give it news, if there are some.

    Parameters
    ----------
    is_there:
        It was there before; a scheduler that has none writes a traceback into its log when asked.

    Returns
    -------
    dict
        ``path``, where the pages are on the scheduler's web server (None: it shows no dashboard), and ``is_watched``.

    Raises
    ------
    NotDeployed
        If the plugin is not there, and can't be put there.
    Exception
        Whatever Dask raises where it can't be reached, or lacks this version of daskevo.
    """
    message = None if news is None else news.to_json()
    operation = getattr(client.scheduler, HANDLER)
    if not is_there:
        await asyncio.wait_for(client.register_plugin(DashboardPlugin()), ANSWER_S)
    reply = await asyncio.wait_for(operation(news=message), ANSWER_S)
    if reply is None:
        raise NotDeployed(f"the scheduler at {client.scheduler.address} has no plugin for daskevo's dashboard pages")
    return value_of(reply)  # type: ignore[no-any-return]


def page_link(client: Any) -> str | None:
    """Return where the studies of a client's cluster can be watched, or None if they can't be: no dashboard, say.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    """
    try:
        link = client.dashboard_link
        path = client.sync(ask, client, callback_timeout=2 * ANSWER_S)["path"]
    except Exception as error:  # noqa: BLE001 - an older scheduler, none, one without daskevo: no matter for a study
        logger.info("daskevo has no page on the dashboard: %s: %s", type(error).__name__, error)
        return None
    return None if path is None else beside(link, path)


def beside(link: str, path: str) -> str | None:
    """Return the address of a page on a dashboard by that of its first page, which may go through a proxy.

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
    prefix = path[: path.rindex("/daskevo/")]
    return (base.removesuffix(prefix) + path) if found else None
