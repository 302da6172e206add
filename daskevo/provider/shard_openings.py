"""Openings of shards at one provider: numbered, one of a shard at a time, and able to say how far they are.

A coordinator asks again and again until an opening has ended: it joins the one under way. Only when nothing of it moves
any more, or nobody asks for it, is an opening given up; until it has ended, no other one of that shard begins here, so
that none can close or free what a later one has taken in.
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
"""Shards opened at the same time: each waits for the disk several times."""
FROZEN_AT_ONCE = 500
"""In a process that is a provider alone, garbage collections leave out what is there after each so many records and
models: it lives as long as the shard is served, and a look through that of ten thousand models stops all else for half
a second. Not beside code of users, whose garbage would stay for ever."""
_steps = itertools.count()
"""Of all openings of this process: each shard may be small, and their models are many all the same."""
TURN_S = 0.0005
ANSWER_S = 2.0
"""An opening that takes longer is answered with how far it is."""


class _ShortTurns:
    """While shards are opened or closed in this process, its threads compute for a shorter time before others may.

    Messages are answered by one thread among several that compute: each time it waits for all of their turns.
    """

    def __init__(self) -> None:
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
        Tells it from others of the same shard at this provider; later ones have higher numbers.
    shard, generation, floor:
        What is opened, in whose name; see :class:`daskevo.protocol.shard.Shard`.
    wanted_until:
        When nobody asks for it any more, by the monotonic clock: the shard has been given to another provider by then.
    turn:
        Held by the one that computes. Waiting for the disk, many do at once; but of threads that compute only one gets
        on at a time, and with each more of them the event loop waits longer for its turn.
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
        """Records and models that it has been through: it moves as long as this grows."""

    def step(self) -> None:
        """Say, from any thread, that one more record or model is done.

        Raises
        ------
        ShardFenced
            If nobody wants the shard open here any more: its next owner's epoch counts.
        """
        self.done += 1
        if self.alone and next(_steps) % FROZEN_AT_ONCE == 0:
            gc.freeze()
        self.refuse_late()

    def refuse_late(self) -> None:
        """Raise as `step` does."""
        if self.superseded or time.monotonic() >= self.wanted_until:
            raise ShardFenced(
                f"shard {self.shard} was to be open earlier: opening {self.number} leaves it to the next",
                shard=self.shard,
            )


class Openings:
    """The openings that are under way at one provider.

    Parameters
    ----------
    carry_out:
        Opens a shard; what it raises is the opening's failure.
    alone:
        Whether this process is a provider and nothing else.
    """

    def __init__(self, carry_out: Callable[[ShardOpening], Awaitable[ServedShard]], *, alone: bool = False) -> None:
        self._alone = alone
        self._carry_out = carry_out
        self._limit = asyncio.Semaphore(OPENINGS_AT_ONCE)
        self._turn = threading.Lock()
        self.threads = ThreadPoolExecutor(OPENINGS_AT_ONCE, "daskevo-opening")
        """Not those of the event loop: where the disk stands still, shards that are open still get theirs."""
        self._numbers = itertools.count(1)
        self._under_way: dict[int, tuple[ShardOpening, asyncio.Task[ServedShard]]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    async def ask(
        self, shards: Iterable[int], generation: int, floors: Mapping[int, Tick], patience_s: float
    ) -> dict[str, Any]:
        """Begin to open shards, or join what is under way; answer when all have ended, or with how far they are.

        Parameters
        ----------
        patience_s:
            How long the coordinator waits for a sign that it goes on: within this it asks again.

        Returns
        -------
        ``opened`` (shards served now, with their epochs: ``[[shard, epoch], ...]``), ``failed`` (``[[shard, error],
        ...]``) and ``under_way`` (``[[shard, opening's number, records and models done], ...]``).
        """
        wanted_until = time.monotonic() + patience_s
        asked = {shard: self._begin(shard, generation, floors.get(shard, Tick(0, 0)), wanted_until) for shard in shards}
        answer_s = None if math.isinf(patience_s) else min(ANSWER_S, patience_s / 3)
        tasks = [task for _, task in asked.values()]
        if tasks:
            # Who asks may go: the openings go on, and the next one who asks joins them.
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
            known.superseded = known.generation < generation
        number = next(self._numbers)
        opening = ShardOpening(number, shard, generation, floor, wanted_until, self._turn, alone=self._alone)
        task = asyncio.get_running_loop().create_task(self._run(opening, None if former is None else former[1]))
        self._under_way[shard] = opening, task
        return opening, task

    async def _run(self, opening: ShardOpening, former: asyncio.Task[ServedShard] | None) -> ServedShard:
        try:
            if former is not None:
                await asyncio.wait([former])
            async with self._limit:
                opening.refuse_late()
                with SHORT_TURNS:
                    return await self._carry_out(opening)
        finally:
            if self._under_way.get(opening.shard, (None,))[0] is opening:
                del self._under_way[opening.shard]

    async def end(self, timeout_s: float) -> None:
        """Give up what is under way, and wait until it has ended, but not for ever."""
        tasks = []
        for opening, task in self._under_way.values():
            opening.superseded = True
            tasks.append(task)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)
        self.threads.shutdown(wait=False)
