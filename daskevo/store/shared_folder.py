"""Determine whether two processes on one host see the same folder, so that they can exchange files instead of bytes.

Host names don't tell: containers and cloned machines may share one. So the boot id of the kernel, and device and inode
of the folder are compared. Each exchanged file is checked in addition.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from daskevo.store.root import Root


class SeenRoot(NamedTuple):
    """A root as one process sees it: the kernel's boot id, device and inode of the folder, the repository's id."""

    boot: str
    device: int
    inode: int
    repository_id: str


def sight_of(root: Root) -> SeenRoot | None:
    """Return what this process sees of a root; None if it can't be determined."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        status = os.stat(root.path)
    except OSError:
        return None
    return SeenRoot(boot, status.st_dev, status.st_ino, root.repository_id) if boot else None
