"""What a client of Dask raises once its scheduler is gone, and what a run says of it."""

from __future__ import annotations

from distributed.client import ClosedClientError

from daskevo.errors import SchedulerUnreachable

NO_ANSWER = (OSError, TimeoutError, RuntimeError, ValueError, KeyError, AttributeError, ClosedClientError)
"""A call that finds no scheduler; a client that has looked for it long enough and closed itself; one in between."""


def scheduler_gone(error: BaseException) -> SchedulerUnreachable:
    """Return the error of a run whose scheduler is gone."""
    return SchedulerUnreachable(
        f"the scheduler does not answer any more ({error or type(error).__name__}); what was finished is in the run's "
        "record: start the cluster again and run the same command to go on"
    )
