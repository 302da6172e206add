"""Asks the coordinators of a scheduler for what there is to show of their repositories: only while somebody watches."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol, runtime_checkable

from daskevo.deploy.settings import RepositorySettings
from daskevo.errors import CorruptRecord, DaskevoError
from daskevo_plugins.background_tasks import Background
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.repository_view import sight_of

logger = logging.getLogger(__name__)

MODELS = 2_000
"""So many models are told of, of all providers together, about."""
ANSWER_S = 3.0
FIRST_S = 1.0
"""Longest that a page that would be empty waits for the first look."""


@runtime_checkable
class ShownCoordinator(Protocol):
    """A coordinator, as a dashboard needs it: found among a scheduler's plugins by what it offers."""

    settings: RepositorySettings

    async def shown(self, models: int, timeout_s: float) -> Any:
        """Return what the providers tell of the repository; None while it is not open."""
        ...


class Looker:
    """Looks at all repositories of a scheduler when asked to, as often as is due.

    Parameters
    ----------
    scheduler:
        With coordinators among its plugins.
    board:
        Is given what was seen.
    """

    def __init__(self, scheduler: Any, board: Board) -> None:
        self._scheduler = scheduler
        self._board = board
        self._background = Background()

    def _coordinators(self) -> dict[str, ShownCoordinator]:
        plugins = list(self._scheduler.plugins.values())
        return {plugin.settings.key: plugin for plugin in plugins if isinstance(plugin, ShownCoordinator)}

    async def look(self) -> None:
        """Begin the looks that are due; wait for them a moment if there is nothing to show yet."""
        sights, there = self._board.sights, self._coordinators()
        for key in sights.due(there):
            sights.asking(key)
            self._background.spawn(self._look_at(key, there[key]))
        if there and not sights.all():
            until = self._board.clock() + FIRST_S
            while not sights.all() and self._board.clock() < until:
                await asyncio.sleep(0.05)

    async def _look_at(self, key: str, coordinator: ShownCoordinator) -> None:
        try:
            told = await coordinator.shown(MODELS, ANSWER_S)
            if told is not None:
                self._board.sights.take(_read(key, told, self._board.clock()))
        except DaskevoError as error:
            logger.info("daskevo: the repository %s can't be looked at: %s", key, error)
            self._board.sights.failed(key, error.message)
        finally:
            self._board.sights.answered(key)

    async def close(self) -> None:
        """End what is under way."""
        await self._background.end(1.0)


def _read(key: str, told: Any, at_s: float) -> Any:
    try:
        return sight_of(key, told, at_s)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptRecord(f"a provider tells what can't be shown: {type(error).__name__}: {error}") from error
