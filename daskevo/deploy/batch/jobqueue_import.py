"""Import dask-jobqueue, and undo what its import changes in this process."""

from __future__ import annotations

import importlib
import signal
import threading
from typing import Any

import dask

from daskevo.errors import BatchSystemError


def jobqueue() -> Any:
    """Return the package dask_jobqueue, with its defaults in Dask's configuration.

    Its import takes Ctrl-C for itself (it ends the process without a word), which is given back here; and whoever has
    reset Dask's configuration since has lost its defaults.

    Raises
    ------
    BatchSystemError
        If it isn't installed, or is first imported in another thread than the main one, which it doesn't bear.
    """
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        package = importlib.import_module("dask_jobqueue")
    except ModuleNotFoundError as error:
        raise BatchSystemError(
            "clusters on a batch system need dask-jobqueue, which is not installed here: pip install dask-jobqueue"
        ) from error
    # Python lets only the main thread set a signal's handler, and the import of dask-jobqueue does so.
    except ValueError as error:
        raise BatchSystemError(
            f"dask-jobqueue can only be imported in the main thread ({error}): import dask_jobqueue there first"
        ) from error
    # None is a handler that was not set by Python, which can't be put back.
    if in_main and before is not None:
        signal.signal(signal.SIGINT, before)
    if dask.config.get("jobqueue.slurm.death-timeout", None) is None:
        importlib.import_module("dask_jobqueue.config").reconfigure()
    return package
