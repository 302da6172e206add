"""Run a script of the protocol with asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from daskevo.errors import ClusterError, DaskevoError, RepositoryError, ShardFenced
from daskevo.protocol.steps import Script, Step, ToTheEnd
from daskevo.wire.to_the_end import to_the_end

T = TypeVar("T")


async def run_script(script: Script[T], carry_out: Callable[[Step], Awaitable[Any]]) -> T:
    """Run a script to its end and return its result.

    Parameters
    ----------
    carry_out:
        Carries out a step and returns what the script is sent back. What it raises is raised in the script, at that
        step; so is the cancellation of the task.
    """
    resume: Callable[[Any], Step] = script.send
    sent: Any = None
    try:
        while True:
            step = resume(sent)
            try:
                if isinstance(step, ToTheEnd):
                    answer = await to_the_end(run_script(step.script, carry_out))
                else:
                    answer = await carry_out(step)
                resume, sent = script.send, answer
            except BaseException as error:  # noqa: BLE001 - the script decides what follows
                resume, sent = script.throw, error
    except StopIteration as stop:
        result: T = stop.value
        return result
    finally:
        # An error holds this frame: together they would keep what was read in memory until the next collection.
        del sent


async def or_error(work: Awaitable[T]) -> T | DaskevoError:
    """Return the result of work, or the error that a script gets instead.

    Raises
    ------
    ShardFenced
        If another provider owns the shard that the script works for: it ends there.
    """
    try:
        return await work
    except ShardFenced:
        raise
    except (ClusterError, RepositoryError) as error:
        return error
