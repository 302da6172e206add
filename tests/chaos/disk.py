"""A small disk of a trial's own, that can be filled for a while."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path


class Disk:
    """A file system in memory, mounted on a folder.

    Parameters
    ----------
    folder:
        Where; made here.
    nbytes:
        What it holds.
    """

    def __init__(self, folder: Path, nbytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={nbytes}", "evo", str(folder)], check=True)
        self._filling = folder / "filling"

    def fill(self) -> None:
        """Leave no room."""
        with self._filling.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            block = bytes(1 << 12)
            while True:
                file.write(block)

    def empty(self) -> None:
        """Take away what filled it."""
        self._filling.unlink(missing_ok=True)
