"""What each writer finds when it begins: nothing that still has to be written, and free memory that the machine has.

A virtual machine's host takes back memory that has lain free for some seconds ("free page reporting"); whoever is the
next to use it waits until the host has found other pages, several times as long as writing takes. Which writer that is
would be chance, so free memory is touched before each of them.
"""

from __future__ import annotations

import mmap
import os

import numpy as np

LITTLE_BYTES = 1 << 24
_MOST_SHARE = 0.5
"""Of the memory that is available: what else the machine does needs some."""


def settle(nbytes: int) -> None:
    """Write to disk what was written before, and touch free memory for what is written next.

    Parameters
    ----------
    nbytes:
        How much will be written or read. A little of it finds room in any case.
    """
    os.sync()
    if nbytes < LITTLE_BYTES:
        return
    # Some more, since what is given back here isn't all that the kernel takes next.
    wanted = min(nbytes + nbytes // 4, int(_MOST_SHARE * _available_bytes()))
    with mmap.mmap(-1, max(wanted, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        # Large pages: hosts take back large runs of free memory, and files are given such runs.
        memory.madvise(mmap.MADV_HUGEPAGE)
        pages = np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE]
        pages[...] = 1
        del pages  # which lets the map be closed


def _available_bytes() -> int:
    return os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE
