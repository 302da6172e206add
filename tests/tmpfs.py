"""A small file system of its own, for tests of full disks."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def mounted(folder: Path, nbytes: int) -> Iterator[bool]:
    """Make a folder and mount a tmpfs of so many bytes there; say whether this user can."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={nbytes}", "tmpfs", str(folder)]
    try:
        there = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        there = False
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
