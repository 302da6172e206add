"""What leads a search needs a client that waits: whoever has none is told so at once, and what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows import nas, tune
from tests.cluster.helpers import evo_cluster, open_here


@evo_cluster()
async def test_in_the_event_loop_of_an_asynchronous_client(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    for lead in (
        lambda: nas.search("digits", repository=repository),
        lambda: tune.study("digits-lr", repository=repository),
        lambda: tune.controller(c),
    ):
        with pytest.raises(InvalidInput, match=r"await asyncio.to_thread\((nas\.search|tune\.study|tune\.controller)"):
            lead()
    # In a thread the same client waits.
    with pytest.raises(InvalidInput, match="evaluations=0"):
        await asyncio.to_thread(nas.search, "digits", repository=repository, evaluations=0)


@evo_cluster()
async def test_inside_of_a_task(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)

    def lead() -> None:
        nas.search("digits", repository=repository)

    with pytest.raises(InvalidInput, match="a task has none: call it in the process that has the client"):
        await c.submit(lead, workers=[t.address])
