"""Worker plugin of trainers: end the process at once when the worker has closed.

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
        """Register the exit handler early, so that it runs after all others.

        Then the worker is closed, its plugins are torn down and its messages sent: there is nothing left to do.
        """
        atexit.register(_leave)


def _leave() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # `os._exit` flushes nothing: the last lines of a log would be lost.
            stream.flush()
    os._exit(0)
