"""Exceptions of a Dask client whose scheduler is lost, and the error that a run raises then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed.client import ClosedClientError, FutureCancelledError
from distributed.comm import CommClosedError

from daskevo.errors import SchedulerUnreachable

NO_ANSWER = (OSError, TimeoutError, RuntimeError, ValueError, KeyError, AttributeError, ClosedClientError)
"""Exceptions of calls without a scheduler: while the client reconnects, and after it has given up and closed."""
FETCH_S = 60.0
"""Time limit for fetching a finished task's result: if its worker leaves meanwhile, the fetch would wait for ever."""

_CUT_OFF = {
    "scheduler-connection-lost": "the connection to the scheduler was lost, and its task with it",
    "scheduler-restart": "somebody has restarted the cluster (client.restart()), and its task went with it",
}
"""Dask's reasons for cancelling all tasks of a client -> words."""


def why_cut_off(future: Any) -> str | None:
    """Return why a task was cancelled without a request: lost connection to the scheduler, or restarted cluster.

    Returns
    -------
    str or None
        None: somebody cancelled it, or it was not cancelled at all.
    """
    try:
        future.result(FETCH_S)
    except FutureCancelledError as error:
        return _CUT_OFF.get(error.reason)
    except TimeoutError:
        return None
    return None


def scheduler_gone(error: BaseException) -> SchedulerUnreachable:
    """Return the error for a run whose scheduler is lost."""
    return SchedulerUnreachable(
        f"the scheduler does not answer any more ({error or type(error).__name__}); what was finished is in the run's "
        "record: start the cluster again and run the same command to go on"
    )


@contextmanager
def told_if_scheduler_gone() -> Iterator[None]:
    """Turn a broken connection to the scheduler in this block into a SchedulerUnreachable error.

    Raises
    ------
    SchedulerUnreachable
    """
    try:
        yield
    except (ClosedClientError, CommClosedError) as error:
        raise scheduler_gone(error) from error
