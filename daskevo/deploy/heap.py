"""Restore glibc's heap thresholds in trainers, which Dask's nanny lowers, so that memory of large arrays is reused.

Dask's nanny starts its workers with ``MALLOC_TRIM_THRESHOLD_=65536``, so that a worker that has let a large object go
looks small at once. With any such setting glibc no longer learns from what a process does: each array over 128 KiB gets
fresh pages from the operating system and gives them back. That suits workers that hold data. A training allocates the
same arrays in each step, and spends its time on page faults: five times as many on flights.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from distributed import WorkerPlugin

DASKS_THRESHOLD = "65536"
"""Default in Dask's configuration of ``distributed.nanny.pre-spawn-environ``, in bytes."""

MAPPED_BYTES = 32 * 2**20
"""Size in bytes from which an allocation gets a mapping of its own: the largest to which glibc adapts by itself, on
64-bit machines."""

TRIMMED_BYTES = 2 * MAPPED_BYTES
"""Free bytes at the end of the heap above which glibc returns memory; like glibc, twice the other threshold."""

# Numbers of `mallopt`'s parameters, from malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


class UseMemoryAgain(WorkerPlugin):  # type: ignore[misc]
    """For workers that train."""

    name = "daskevo-use-memory-again"
    idempotent = True

    def setup(self, worker: Any) -> None:
        use_memory_again()


def use_memory_again(environment: Mapping[str, str] = os.environ) -> bool:
    """Set this process' thresholds to the largest that glibc comes to by itself.

    Nothing is done where somebody has chosen others than Dask's, or the C library isn't glibc.

    Returns
    -------
    Whether they were set.
    """
    chosen = environment.get("MALLOC_TRIM_THRESHOLD_")
    if chosen != DASKS_THRESHOLD or "MALLOC_MMAP_THRESHOLD_" in environment:
        return False
    try:
        # musl and macOS have no `mallopt`.
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    mapped = mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
    return bool(mapped and mallopt(_M_TRIM_THRESHOLD, TRIMMED_BYTES))
