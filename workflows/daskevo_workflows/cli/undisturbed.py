"""Dask preload for workers of the command's own cluster: Ctrl-C on the terminal is for the command alone.

A terminal sends it to every process of the command. Workers would die in the middle of what the command is about to
stop in good order, each with a traceback; their nannies end them.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Ignore the interrupt; runs in the main thread of the worker's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
