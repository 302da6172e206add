"""Query the coordinators of a scheduler about their repositories, only while a page is watched."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol, runtime_checkable

from daskevo.deploy.settings import RepositorySettings
from daskevo.errors import CorruptRecord, DaskevoError
from daskevo_plugins.background_tasks import Background
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.repository_view import view_of

logger = logging.getLogger(__name__)

MODELS = 2_000
"""Approximate number of models to fetch, from all providers together."""
ANSWER_S = 3.0
FIRST_S = 1.0
"""Longest wait of an otherwise empty page for the first answer."""


@runtime_checkable
class ShownCoordinator(Protocol):
    """A coordinator as the dashboard needs it; recognised among a scheduler's plugins by this method."""

    settings: RepositorySettings

    async def shown(self, models: int, timeout_s: float) -> Any:
        """Return the providers' view of the repository; None while it is not open."""
        ...


class Poller:
    """Queries all repositories of a scheduler when asked, at suitable intervals.

    Parameters
    ----------
    scheduler:
        Dask's scheduler, with coordinators among its plugins.
    board:
        Receives the views.
    """

    def __init__(self, scheduler: Any, board: Board) -> None:
        self._scheduler = scheduler
        self._board = board
        self._background = Background()

    def _coordinators(self) -> dict[str, ShownCoordinator]:
        plugins = list(self._scheduler.plugins.values())
        return {plugin.settings.key: plugin for plugin in plugins if isinstance(plugin, ShownCoordinator)}

    async def look(self) -> None:
        """Start the queries that are due; wait briefly for them if there is nothing to show yet."""
        repositories, there = self._board.repositories, self._coordinators()
        for key in repositories.due(there):
            # Noted before the task begins, so that requests that come meanwhile don't start a second query.
            repositories.asking(key)
            self._background.spawn(self._look_at(key, there[key]))
        # A page with nothing but "no repository" would be shown for a second, though one is open.
        if there and not repositories.all():
            until = self._board.clock() + FIRST_S
            while not repositories.all() and self._board.clock() < until:
                await asyncio.sleep(0.05)

    async def _look_at(self, key: str, coordinator: ShownCoordinator) -> None:
        try:
            told = await coordinator.shown(MODELS, ANSWER_S)
            if told is not None:
                self._board.repositories.take(_read(key, told, self._board.clock()))
        # Whatever a provider or the network did, the page goes on: it shows the last view and says why it is old.
        except DaskevoError as error:
            logger.info("daskevo: the repository %s can't be looked at: %s", key, error)
            self._board.repositories.failed(key, error.message)
        finally:
            self._board.repositories.answered(key)

    async def close(self) -> None:
        """End queries that are under way."""
        await self._background.end(1.0)


def _read(key: str, told: Any, at_s: float) -> Any:
    try:
        return view_of(key, told, at_s)
    # A provider of another version may answer anything; one kind of error makes one place for all.
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptRecord(f"a provider tells what can't be shown: {type(error).__name__}: {error}") from error
