"""The file system of a folder, and whether its files can safely be mapped into memory."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

_MAPPED = {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
"""File systems whose files can be mapped safely: their disk is local, so a page of a file can always be read again."""


@lru_cache(maxsize=8192)
def file_system(path: Path) -> str:
    """Return the kernel's name of a folder's file system; empty if it can't be determined."""
    try:
        real = os.path.realpath(path)
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    found, kind = "", ""
    for line in lines:
        words, _, rest = line.partition(" - ")
        # The kernel writes blanks, tabs, line ends and backslashes as octal numbers, and all else as it is.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words.split(" ")[4])
        # Of two file systems mounted at one point, the later one hides the other.
        if (real + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(found):
            found, kind = point, rest.split()[0]
    return kind


def may_be_mapped(path: Path) -> bool:
    """Whether files in a folder can safely be mapped for a long time.

    Not on file systems whose server may remove a file or stop answering (NFS, Lustre, GPFS, FUSE): a page that can't be
    read again kills the process, where a read would raise an error.
    """
    return file_system(path) in _MAPPED
