"""Queries of one process: those that come while others are on the way travel together, in one message per provider.

A single query costs its messages, whose price hardly depends on how many questions are in them: under many clients the
batches grow by themselves, and one client waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from daskevo.client.best_match import MatchAnswer, Question, best_matches
from daskevo.client.directory import Directory

MOST_TOGETHER = 64
"""Most questions that are joined; a larger batch goes by itself, and no small one waits for it."""
PATIENCE_S = 0.05
"""Longest that questions wait for those on the way: then they leave by themselves."""


class _Waiting(NamedTuple):
    questions: Sequence[Question]
    timeout_s: float
    answer: asyncio.Future[MatchAnswer]


class Asker:
    """Asks all providers for best matches.

    Parameters
    ----------
    directory:
        The way to the providers.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._waiting: dict[str, list[_Waiting]] = {}
        self._last_left: dict[str, float] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def best(self, scope: str, questions: Sequence[Question], *, timeout_s: float) -> MatchAnswer:
        """Return the best match of each question, as `best_matches` does."""
        if len(questions) > MOST_TOGETHER:
            return await best_matches(self._directory, scope, questions, timeout_s=timeout_s)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(questions, timeout_s, loop.create_future())
        self._waiting.setdefault(scope, []).append(waiting)
        due = self._last_left.get(scope, 0.0) + PATIENCE_S
        if due <= loop.time():
            self._leave(scope)
        else:
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
        """Ask what waits, again and again until nothing does."""
        while together := self._take(scope):
            self._last_left[scope] = asyncio.get_running_loop().time()
            try:
                await self._answer(scope, together)
            finally:
                for waiting in together:
                    waiting.answer.cancel()  # only if this task was cancelled: the others have their answers
        self._last_left.pop(scope, None)

    async def _answer(self, scope: str, together: Sequence[_Waiting]) -> None:
        questions = [question for waiting in together for question in waiting.questions]
        timeout_s = max(waiting.timeout_s for waiting in together)
        (found,) = await asyncio.gather(
            best_matches(self._directory, scope, questions, timeout_s=timeout_s), return_exceptions=True
        )
        start = 0
        for waiting in together:
            end = start + len(waiting.questions)
            if waiting.answer.done():  # who asked was cancelled
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
