"""What a client of Dask raises once its scheduler is gone, and what a run says of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm import CommClosedError

from daskevo.errors import SchedulerUnreachable

NO_ANSWER = (OSError, TimeoutError, RuntimeError, ValueError, KeyError, AttributeError, ClosedClientError)
"""A call that finds no scheduler; a client that has looked for it long enough and closed itself; one in between."""
FETCH_S = 60.0
"""What fetching the result of a task that has ended may take: its worker may go meanwhile, and it waits then."""

_CUT_OFF = {
    "scheduler-connection-lost": "the connection to the scheduler was lost, and its task with it",
    "scheduler-restart": "somebody has restarted the cluster (client.restart()), and its task went with it",
}
"""Reasons that Dask gives for tasks that nobody has cancelled one by one."""


def why_cut_off(future: Any) -> str | None:
    """Say why a task is over that nobody has given up: its scheduler was out of reach, or its cluster restarted.

    Returns
    -------
    str or None
        None: it was cancelled by somebody, or wasn't cancelled at all.
    """
    try:
        future.result(FETCH_S)
    except FutureCancelledError as error:
        return _CUT_OFF.get(error.reason)
    except TimeoutError:
        return None
    return None


def scheduler_gone(error: BaseException) -> SchedulerUnreachable:
    """Return the error of a run whose scheduler is gone."""
    return SchedulerUnreachable(
        f"the scheduler does not answer any more ({error or type(error).__name__}); what was finished is in the run's "
        "record: start the cluster again and run the same command to go on"
    )


@contextmanager
def told_if_scheduler_gone() -> Iterator[None]:
    """Have a named error raised in this block where the connection to the scheduler broke in the middle of a call.

    Raises
    ------
    SchedulerUnreachable
    """
    try:
        yield
    except (ClosedClientError, CommClosedError) as error:
        raise scheduler_gone(error) from error
