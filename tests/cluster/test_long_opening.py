"""Opening a repository is waited for as long as its providers get further, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from daskevo.deploy.deployment import _have_opened
from daskevo.errors import ShardUnavailable

PATIENCE_S = 60.0


class ScriptedCoordinator:
    """Answers each question for the shards with the next line: what is missing, and how much of it is read."""

    def __init__(self, *answers: tuple[int, int] | None) -> None:
        self.answers = list(answers)
        self.limits: list[float | None] = []
        self.limit: asyncio.Timeout | None = None

    async def coordinator(self, method: str, *, timeout_s: float, opener: str, patience_s: float) -> Any:
        assert (method, timeout_s, opener) == ("assign", PATIENCE_S, "me")
        assert 0 < patience_s < PATIENCE_S, "the coordinator gives up first"
        assert self.limit is not None
        self.limits.append(self.limit.when())
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if answer is not None:
            missing, read = answer
            raise ShardUnavailable("not yet", shards=list(range(missing)), read=read)


async def opened(coordinator: ScriptedCoordinator) -> None:
    async with asyncio.timeout(PATIENCE_S) as coordinator.limit:
        await _have_opened(coordinator, PATIENCE_S, "me", coordinator.limit)  # type: ignore[arg-type]


def test_as_long_as_records_are_read_or_shards_are_opened() -> None:
    coordinator = ScriptedCoordinator((8, 10), (8, 900), (3, 900), None)
    asyncio.run(opened(coordinator))
    assert coordinator.answers == []
    first, *later = coordinator.limits
    assert first is not None
    assert all(limit is not None and limit > first for limit in later)


@pytest.mark.parametrize("answers", [[(8, 0)], [(8, 10), (8, 10)], [(8, 10), (8, 900), (8, 900)]])
def test_who_gets_no_further_is_waited_for_no_longer(answers: list[tuple[int, int]]) -> None:
    coordinator = ScriptedCoordinator(*answers, None)
    with pytest.raises(ShardUnavailable, match="not yet"):
        asyncio.run(opened(coordinator))
    assert coordinator.answers == [None]
