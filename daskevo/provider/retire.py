"""Retirements of models, as the provider of their shards carries them out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from daskevo.client.run_script import or_error, run_script
from daskevo.client.session import Session
from daskevo.errors import DaskevoError, ShardFenced
from daskevo.protocol import scripts
from daskevo.protocol.state import Retirement
from daskevo.protocol.steps import IsServed, OnOwnShard, Step, Together, TryLater
from daskevo.provider.served_shard import ServedShard
from daskevo.types import JSON, ModelId

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.5, 2.0, 10.0)
"""Waits between attempts, in seconds; the last one repeats."""
MOST_TOLD = 50
"""Retirements, at most, of which the answer to one heartbeat tells."""


@dataclass
class _RunningRetirement:
    """A retirement that is carried out: when it began (seconds since the epoch), and why it has to wait, if it has."""

    began: float = field(default_factory=time.time)
    waits_for: str = ""
    again: asyncio.Event = field(default_factory=asyncio.Event)

    async def later(self, trouble: object, seconds: float) -> None:
        """Wait for so long, or until it is told to go on."""
        self.waits_for = str(trouble)
        self.again.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.again.wait(), seconds)


class Retirements:
    """All retirements that a provider carries out, each in a task of its own.

    Parameters
    ----------
    session:
        Sends messages to other shards.
    is_served:
        Tells whether a shard is still served here.
    fenced:
        Called if another provider owns a shard.
    spawn:
        Starts background work, and keeps its task in a set until it has ended.
    """

    def __init__(
        self,
        session: Session,
        is_served: Callable[[ServedShard], bool],
        fenced: Callable[[ServedShard, ShardFenced], None],
        spawn: Callable[[Coroutine[Any, Any, None], set[asyncio.Task[None]]], None],
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._session = session
        self._is_served = is_served
        self._fenced = fenced
        self._spawn = spawn
        self._running: dict[tuple[ServedShard, ModelId], _RunningRetirement] = {}
        self._ended: deque[list[JSON]] = deque(maxlen=MOST_TOLD)
        self._failed = 0

    def begin(self, served: ServedShard, retirements: Iterable[Retirement]) -> None:
        """Carry out retirements of a shard's models, but for those that are under way."""
        for retirement in retirements:
            if (served, retirement.model) not in self._running:
                self._running[served, retirement.model] = _RunningRetirement()
                self._spawn(self._retire(served, retirement), self.tasks)

    def go_on(self) -> None:
        """Try again at once what has to wait for another provider's shard."""
        for running in self._running.values():
            running.again.set()

    def news(self) -> dict[str, JSON]:
        """Return what a heartbeat's answer says: retirements that wait, and those ended since the last call.

        Returns
        -------
        dict
            ``waiting``: ``[model, began, why]``; ``ended``: ``[model, began, ended]``, the latest `MOST_TOLD`; both in
            seconds since the epoch; ``failed``: how many of these are unfinished, because of an unexpected error.
        """
        waiting = [[model, one.began, one.waits_for] for (_, model), one in self._running.items() if one.waits_for]
        found: dict[str, JSON] = {"waiting": waiting[:MOST_TOLD], "ended": [*self._ended], "failed": self._failed}
        self._ended.clear()
        self._failed = 0
        return found

    async def _retire(self, served: ServedShard, retirement: Retirement) -> None:
        running = self._running[served, retirement.model]
        try:
            await retire(served, retirement, self._session, self._is_served, running.later)
            self._ended.append([retirement.model, running.began, time.time()])
        except ShardFenced as error:
            self._fenced(served, error)
        except Exception:
            self._failed += 1
            raise
        finally:
            del self._running[served, retirement.model]


async def retire(
    served: ServedShard,
    retirement: Retirement,
    session: Session,
    is_served: Callable[[ServedShard], bool],
    later: Callable[[object, float], Awaitable[None]],
) -> None:
    """Carry out `scripts.retire`.

    Parameters
    ----------
    later:
        Waits before the next attempt: called with what was wrong, and for how many seconds at most.

    Raises
    ------
    ShardFenced
        If another provider owns the shard.
    """
    waits = list(_RETRY_S)

    async def carry_out(step: Step) -> Any:
        match step:
            case IsServed():
                return is_served(served)
            case Together(drops):
                answers = await or_error(session.send_together(drops))
                return [answers] * len(drops) if isinstance(answers, DaskevoError) else answers
            case OnOwnShard(messages):
                done = await or_error(served.ask(messages))
                return done if isinstance(done, DaskevoError) else None
            case TryLater(trouble):
                logger.info("daskevo: retiring %s goes on later: %s", retirement.model, trouble)
                await later(trouble, waits.pop(0) if len(waits) > 1 else waits[0])
        return None

    await run_script(scripts.retire(retirement), carry_out)
