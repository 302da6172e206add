"""Which file system a folder lies on, and whether its files may be mapped."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MAPPED = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
"""File systems whose maps are safe: their disk is this host's, a page of a file that is there can be read again."""


@lru_cache(maxsize=8192)
def file_system(path: Path) -> str:
    """Return the kind of file system, as the kernel calls it; empty if it can't be told."""
    try:
        real = os.path.realpath(path)
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    found, kind = "", ""
    for line in lines:
        words, _, rest = line.partition(" - ")
        point = words.split()[4].encode().decode("unicode_escape")
        # Of two at one point the later one hides the other.
        if (real + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(found):
            found, kind = point, rest.split()[0]
    return kind


def may_be_mapped(path: Path) -> bool:
    """Whether files in a folder may be mapped for long.

    Not where a server may take a file away or not answer (NFS, Lustre, GPFS, FUSE): a page that can't be read again
    ends the process, where a read would have raised an error.
    """
    return file_system(path) in _MAPPED
