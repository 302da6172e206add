"""Dask preload for workers of the command's own cluster: signals of a terminal or a batch system are for the command.

A terminal sends Ctrl-C to every process of the command. Workers would die in the middle of what the command is about to
stop in good order, each with a traceback; their nannies end them. A heartbeat that finds no scheduler at the end is not
logged: the scheduler lives in the command's own process.
"""

from __future__ import annotations

import logging
import signal
from typing import Any

from daskevo.wire.dask_private import HEARTBEAT
from daskevo_workflows.execution.batch_job_deadline import this_job


def dask_setup(worker: Any) -> None:
    """Ignore the interrupt, and say nothing of a missing scheduler; runs in the main thread of the worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if this_job() is not None:
        # A batch system signals all processes of a job. The command hears it, too, and ends its workers in good order.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.getLogger("distributed.worker").addFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Tell whether what a worker logs is more than that its heartbeat found no scheduler."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (record.funcName == HEARTBEAT and kind is not None and issubclass(kind, OSError))
