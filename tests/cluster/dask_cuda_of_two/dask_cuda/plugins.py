"""The worker plugin that is asked for."""

from __future__ import annotations

import os
from typing import Any

from distributed import WorkerPlugin


class CPUAffinity(WorkerPlugin):  # type: ignore[misc]
    """Keeps the thread that sets up a worker, and those that it starts, on some cores."""

    def __init__(self, cores: list[int]) -> None:
        self.cores = cores

    def setup(self, worker: Any = None) -> None:
        os.sched_setaffinity(0, self.cores)
