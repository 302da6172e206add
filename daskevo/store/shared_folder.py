"""Whether two processes see one folder on one host, so that they may hand each other files instead of bytes.

A host's name tells nothing (containers share one, clones of a machine do). Here: one kernel since one boot, and one
device and inode behind the path. What is handed over is checked all the same, file by file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from daskevo.store.root import Root


class SeenRoot(NamedTuple):
    """What a process sees of a root: its kernel's boot, device and inode of the folder, the repository's id."""

    boot: str
    device: int
    inode: int
    repository_id: str


def sight_of(root: Root) -> SeenRoot | None:
    """Return what this process sees of a root; None if it can't be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        status = os.stat(root.path)
    except OSError:
        return None
    return SeenRoot(boot, status.st_dev, status.st_ino, root.repository_id) if boot else None
