"""Dask preload for workers of the command's own cluster: Ctrl-C, or a batch system's word, is for the command alone.

A terminal sends it to every process of the command. Workers would die in the middle of what the command is about to
stop in good order, each with a traceback; their nannies end them. Nor is it news to anybody that a worker's heartbeat
finds no scheduler any more: that one lives in the command's own process.
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
        # A batch system says its word to all processes of a job, and the command ends in good order with its workers.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.getLogger("distributed.worker").addFilter(is_news)


def is_news(record: logging.LogRecord) -> bool:
    """Tell whether what a worker logs is more than that its heartbeat found no scheduler."""
    kind = record.exc_info[0] if record.exc_info else None
    return not (record.funcName == HEARTBEAT and kind is not None and issubclass(kind, OSError))
