"""A small file system of its own, for tests of full disks."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.rights import in_ci, not_allowed


@contextlib.contextmanager
def mounted(folder: Path, nbytes: int) -> Iterator[bool]:
    """Make a folder and mount a tmpfs of so many bytes there; say whether this user can. Under CI, who can't fails."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={nbytes}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        there, said = done.returncode == 0, done.stderr.strip()
    except OSError as error:
        there, said = False, str(error)
    if not there and in_ci():
        not_allowed(f"no tmpfs can be mounted here: {said}")
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def own_disk(folder: Path, nbytes: int) -> Iterator[Path]:
    """Make a folder with a tmpfs of so many bytes, or skip the test."""
    with mounted(folder, nbytes) as there:
        if not there:
            not_allowed("this user can't mount a tmpfs")
        yield folder
