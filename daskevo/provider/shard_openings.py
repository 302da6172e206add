"""Openings of shards at one provider: numbered, at most one for each shard at a time, with progress.

The coordinator repeats its request until an opening has ended; each repetition joins the running one. An opening is
given up only if it makes no progress or is not asked for any more. The next opening of the same shard waits until it
has ended, so that it can't close or free what the next one has loaded.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from daskevo.errors import DaskevoError, ShardFenced
from daskevo.types import Tick

if TYPE_CHECKING:
    from daskevo.provider.served_shard import ServedShard

OPENINGS_AT_ONCE = 8
"""Shards opened concurrently: each waits for the disk several times, so several make better use of it."""
FROZEN_AT_ONCE = 500
"""Number of records and models after which a process that is only a provider calls ``gc.freeze``. These objects live
as long as the shard is served, and a collection over those of ten thousand models stops the process for half a second.
Not done in processes that also run code of users, whose garbage would never be collected."""
_steps = itertools.count()
"""Steps of all openings in this process: shards may be small, but many of them have many models together."""
TURN_S = 0.0005
"""Switch interval of threads while shards are opened or closed, in seconds (Python's default: 0.005)."""
ANSWER_S = 2.0
"""Time after which an unfinished opening is answered with its progress, in seconds."""


class _ShortTurns:
    """Shorten Python's thread switch interval while shards are opened or closed in this process.

    The event loop answers messages in one thread beside several that compute, and waits for a turn of each of them.
    """

    def __init__(self) -> None:
        # Several event loops, each in a thread of its own, may be in one process, and the interval is the process'.
        self._lock = threading.Lock()
        self._openings = 0
        self._usual_s = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._openings:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN_S, self._usual_s))
            self._openings += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._openings -= 1
            if not self._openings:
                sys.setswitchinterval(self._usual_s)


SHORT_TURNS = _ShortTurns()


class ShardOpening:
    """One opening of a shard.

    Parameters
    ----------
    number:
        Distinguishes this opening from others of the same shard at this provider; later ones have higher numbers.
    shard, generation, floor:
        The shard and the coordinator's generation; see :class:`daskevo.protocol.shard.Shard`.
    wanted_until:
        Time on the monotonic clock after which the request has lapsed: the coordinator has assigned the shard to
        another provider by then.
    turn:
        Lock held while the opening computes. Many openings can wait for the disk at once, but of computing threads only
        one advances at a time, and each more of them delays the event loop.
    alone:
        Whether this process is a provider and nothing else.
    """

    def __init__(
        self,
        number: int,
        shard: int,
        generation: int,
        floor: Tick,
        wanted_until: float,
        turn: threading.Lock,
        *,
        alone: bool = False,
    ) -> None:
        self.number = number
        self.shard = shard
        self.generation = generation
        self.floor = floor
        self.wanted_until = wanted_until
        self.turn = turn
        self.alone = alone
        self.superseded = False
        self.done = 0
        """Number of records and models processed; the coordinator sees progress as long as it grows."""

    def step(self) -> None:
        """Count one more processed record or model; may be called from any thread.

        Raises
        ------
        ShardFenced
            If the request has lapsed or was superseded: the next owner's epoch counts.
        """
        self.done += 1
        if self.alone and next(_steps) % FROZEN_AT_ONCE == 0:
            gc.freeze()
        self.refuse_late()

    def refuse_late(self) -> None:
        """Raise the error of `step` if the request has lapsed, without counting."""
        if self.superseded or time.monotonic() >= self.wanted_until:
            raise ShardFenced(
                f"shard {self.shard} was to be open earlier: opening {self.number} leaves it to the next",
                shard=self.shard,
            )


class Openings:
    """The running openings of one provider.

    Parameters
    ----------
    carry_out:
        Opens a shard; its error is reported as the opening's failure.
    alone:
        Whether this process is a provider and nothing else.
    """

    def __init__(self, carry_out: Callable[[ShardOpening], Awaitable[ServedShard]], *, alone: bool = False) -> None:
        self._alone = alone
        self._carry_out = carry_out
        self._limit = asyncio.Semaphore(OPENINGS_AT_ONCE)
        self._turn = threading.Lock()
        self.threads = ThreadPoolExecutor(OPENINGS_AT_ONCE, "daskevo-opening")
        """A pool of its own: openings that wait for a stalled disk must not take the threads that open shards need."""
        self._numbers = itertools.count(1)
        self._under_way: dict[int, tuple[ShardOpening, asyncio.Task[ServedShard]]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    async def ask(
        self, shards: Iterable[int], generation: int, floors: Mapping[int, Tick], patience_s: float
    ) -> dict[str, Any]:
        """Start opening shards, or join running openings; return when all have ended, or with their progress.

        Parameters
        ----------
        patience_s:
            Time within which the coordinator wants to see progress, in seconds; it asks again before that.

        Returns
        -------
        ``opened`` (shards served now, with their epochs: ``[[shard, epoch], ...]``), ``failed`` (``[[shard, error],
        ...]``) and ``under_way`` (``[[shard, opening's number, records and models done], ...]``).
        """
        wanted_until = time.monotonic() + patience_s
        asked = {shard: self._begin(shard, generation, floors.get(shard, Tick(0, 0)), wanted_until) for shard in shards}
        # A third leaves the coordinator time to ask again, even if one answer is lost.
        answer_s = None if math.isinf(patience_s) else min(ANSWER_S, patience_s / 3)
        tasks = [task for _, task in asked.values()]
        if tasks:
            # `asyncio.wait` does not cancel them: if the caller goes, the openings go on for the next request.
            await asyncio.wait(tasks, timeout=answer_s)
        found: dict[str, Any] = {"opened": [], "failed": [], "under_way": []}
        for shard, (opening, task) in asked.items():
            if not task.done():
                found["under_way"].append([shard, opening.number, opening.done])
                continue
            try:
                found["opened"].append([shard, task.result().epoch])
            except DaskevoError as error:
                found["failed"].append([shard, error])
        return found

    def _begin(
        self, shard: int, generation: int, floor: Tick, wanted_until: float
    ) -> tuple[ShardOpening, asyncio.Task[ServedShard]]:
        former = self._under_way.get(shard)
        if former is not None:
            known, _ = former
            if known.generation == generation:
                known.wanted_until = max(known.wanted_until, wanted_until)
                return former
            # Not by the request of an older coordinator, which is refused when its turn comes.
            known.superseded = known.generation < generation
        number = next(self._numbers)
        opening = ShardOpening(number, shard, generation, floor, wanted_until, self._turn, alone=self._alone)
        task = asyncio.get_running_loop().create_task(self._run(opening, None if former is None else former[1]))
        self._under_way[shard] = opening, task
        return opening, task

    async def _run(self, opening: ShardOpening, former: asyncio.Task[ServedShard] | None) -> ServedShard:
        try:
            if former is not None:
                await asyncio.wait([former])  # `wait` does not raise its error, which its own request reports
            async with self._limit:
                opening.refuse_late()
                with SHORT_TURNS:
                    return await self._carry_out(opening)
        finally:
            if self._under_way.get(opening.shard, (None,))[0] is opening:
                del self._under_way[opening.shard]

    async def end(self, timeout_s: float) -> None:
        """Give up all openings, and wait up to `timeout_s` seconds for their end."""
        tasks = []
        for opening, task in self._under_way.values():
            opening.superseded = True
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        self.threads.shutdown(wait=False)  # a thread may wait for a disk that never answers
