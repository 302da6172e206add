"""The contract of a connection, for ours and for yours: await :func:`check_connection` in a test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from daskevo.client.connection import Connection
from daskevo.client.session import Caller, Session
from daskevo.protocol.holders import ClientHolder, TaskHolder


async def check_connection(connection: Connection) -> None:
    """Check what every connection promises; raises AssertionError on the first promise that is broken.

    Of one whose calls return values, not awaitables, await this where such a call may block: in a task's thread, or by
    ``asyncio.run`` in a thread of your own.
    """
    assert isinstance(connection.session, Session), "a connection has a session"
    assert isinstance(connection.asynchronous, bool), "a connection says whether its calls return awaitables"

    async def run(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        result = connection.run(function, *arguments)
        assert asyncio.iscoroutine(result) or asyncio.isfuture(result) or not connection.asynchronous, (
            "an asynchronous connection returns awaitables"
        )
        return await result if connection.asynchronous else result

    await _check_caller(connection)
    await _check_run(run)
    await _check_post(connection, run)


async def _check_caller(connection: Connection) -> None:
    caller = connection.caller()
    assert isinstance(caller, Caller), "a connection says who asks"
    assert isinstance(caller.holder, (ClientHolder, TaskHolder)), "who asks is a client or the run of a task"
    assert connection.caller() == caller, "who asks twice is the same"


async def _check_run(run: Callable[..., Coroutine[Any, Any, Any]]) -> None:
    async def given(*arguments: Any) -> Any:
        # Suspends once, so that a connection must drive the coroutine with an event loop, not only start it.
        await asyncio.sleep(0)
        return arguments

    async def failing() -> None:
        raise LookupError("of the function")

    assert await run(given, 1, "two") == (1, "two"), "what is run gets its arguments, and its result comes back"
    # Not `pytest.raises`: extensions may run this check without pytest.
    raised = None
    try:
        await run(failing)
    except LookupError as error:
        raised = error
    assert raised is not None, "an error of what is run must be raised"
    assert raised.args == ("of the function",), "an error comes back as it is"


async def _check_post(connection: Connection, run: Callable[..., Coroutine[Any, Any, Any]]) -> None:
    posted: list[int] = []

    async def seen() -> list[int]:
        return list(posted)

    # From this thread, which may not be the event loop's: calls from outside must not overtake each other.
    for number in range(5):
        connection.post(posted.append, number)
    assert await run(seen) == [0, 1, 2, 3, 4], "what is posted is called in order, before whatever is run later"
