"""A worker plugin of trainers: leave at once when the worker is done.

Taking down an interpreter with TensorFlow in it takes seconds, longer than a nanny waits before it kills and complains.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from distributed import WorkerPlugin


class LeaveAtOnce(WorkerPlugin):  # type: ignore[misc]
    """For worker processes under a nanny only: it ends the process."""

    name = "daskevo-leave-at-once"
    idempotent = True

    def setup(self, worker: Any) -> None:
        """Register early, and so be called last: after all other exit handlers.

        Then the worker is closed, its plugins are torn down and its messages sent: there is nothing left to do.
        """
        atexit.register(_leave)


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)
