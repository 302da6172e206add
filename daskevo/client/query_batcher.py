"""Batch the queries of one process: queries that come while others are in flight are joined, one message per provider.

The cost of a message hardly depends on its number of queries. Under load the batches grow by themselves, and a single
caller does not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from daskevo.client.best_match import MatchAnswer, Question, best_matches
from daskevo.client.directory import Directory

MOST_TOGETHER = 64
"""Most queries that are joined; a larger batch is sent by itself, so that small ones need not wait for it."""
PATIENCE_S = 0.05
"""Longest time that queries wait for those in flight, in seconds; then they are sent anyway."""


class _Waiting(NamedTuple):
    questions: Sequence[Question]
    timeout_s: float
    answer: asyncio.Future[MatchAnswer]


class QueryBatcher:
    """Sends queries for best matches to all providers, in batches.

    Parameters
    ----------
    directory:
        Calls the providers.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._waiting: dict[str, list[_Waiting]] = {}
        self._last_left: dict[str, float] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def best(self, scope: str, questions: Sequence[Question], *, timeout_s: float) -> MatchAnswer:
        """Return the best match of each query, as `best_matches` does, without records."""
        if len(questions) > MOST_TOGETHER:
            return await best_matches(self._directory, scope, questions, timeout_s=timeout_s)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(questions, timeout_s, loop.create_future())
        self._waiting.setdefault(scope, []).append(waiting)
        due = self._last_left.get(scope, 0.0) + PATIENCE_S
        if due <= loop.time():
            self._leave(scope)
        else:
            # The running `_ask` usually takes these queries earlier; the timer matters if it waits for a slow provider.
            loop.call_at(due, self._leave, scope)
        return await waiting.answer

    def _leave(self, scope: str) -> None:
        if scope not in self._waiting:
            return
        loop = asyncio.get_running_loop()
        self._last_left[scope] = loop.time()
        task = loop.create_task(self._ask(scope))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _ask(self, scope: str) -> None:
        """Send the waiting queries of a scope, batch by batch, until none wait."""
        while together := self._take(scope):
            self._last_left[scope] = asyncio.get_running_loop().time()
            try:
                await self._answer(scope, together)
            finally:
                for waiting in together:
                    waiting.answer.cancel()  # has an effect only if this task was cancelled before all had answers
        self._last_left.pop(scope, None)

    async def _answer(self, scope: str, together: Sequence[_Waiting]) -> None:
        questions = [question for waiting in together for question in waiting.questions]
        timeout_s = max(waiting.timeout_s for waiting in together)
        # An error is passed to every caller of the batch, so it must not end this task.
        (found,) = await asyncio.gather(
            best_matches(self._directory, scope, questions, timeout_s=timeout_s), return_exceptions=True
        )
        start = 0
        for waiting in together:
            end = start + len(waiting.questions)
            if waiting.answer.done():  # its caller was cancelled
                pass
            elif isinstance(found, BaseException):
                waiting.answer.set_exception(found)
            else:
                waiting.answer.set_result(MatchAnswer(found.matches[start:end], {}, found.silent))
            start = end

    def _take(self, scope: str) -> list[_Waiting]:
        queue = self._waiting.pop(scope, [])
        count = taken = 0
        for waiting in queue:
            count += len(waiting.questions)
            if taken and count > MOST_TOGETHER:
                break
            taken += 1
        if queue[taken:]:
            self._waiting[scope] = queue[taken:]
        return queue[:taken]
