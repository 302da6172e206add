"""Whether two processes see one folder on one host, so that they may hand each other files instead of bytes.

A host's name tells nothing (containers share one, clones of a machine do). Here: one kernel since one boot, and one
device and inode behind the path. What is handed over is checked all the same, file by file.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from daskevo.store.root import Root

_MAPPED = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
"""File systems whose maps are safe: their disk is this host's, a page of a file that is there can be read again."""


class Sight(NamedTuple):
    """What a process sees of a root: its kernel's boot, device and inode of the folder, the repository's id."""

    boot: str
    device: int
    inode: int
    repository_id: str


def sight_of(root: Root) -> Sight | None:
    """Return what this process sees of a root; None if it can't be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        status = os.stat(root.path)
    except OSError:
        return None
    return Sight(boot, status.st_dev, status.st_ino, root.repository_id) if boot else None


@cache
def may_be_mapped(path: Path) -> bool:
    """Whether files in a folder may be mapped for long.

    Not where a server may take a file away or not answer (NFS, Lustre, GPFS, FUSE): a page that can't be read again
    ends the process, where a read would have raised an error.
    """
    try:
        real = os.path.realpath(path)
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    found, kind = "", ""
    for line in lines:
        words, _, rest = line.partition(" - ")
        point = words.split()[4].encode().decode("unicode_escape")
        # Of two at one point the later one hides the other.
        if (real + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(found):
            found, kind = point, rest.split()[0]
    return kind in _MAPPED
