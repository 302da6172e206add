"""The folder for what jobs write: it goes again if they have written nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path


def missing_folders(folder: Path) -> list[Path]:
    """Return the folders that have to be made for this one, itself first."""
    return [path for path in (folder, *folder.parents) if not path.exists()]


def remove_if_empty(folders: Iterable[Path]) -> None:
    """Remove folders, inner ones first, up to the first that something lies in."""
    with contextlib.suppress(OSError):
        for path in folders:
            path.rmdir()
