"""List the files of a root: their bytes, leftovers of dead writers, and foreign files."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from daskevo.errors import RootUnusable
from daskevo.store.files import remove, usable
from daskevo.store.segment_names import parse_segment_name
from daskevo.store.shard_state import SERVED
from daskevo.types import Attempt, ModelId

_TEMPORARY = re.compile(r"(.+)\.[0-9a-f]{8}\.tmp", re.ASCII)
_IN_ROOT = re.compile(
    rf"repository\.json|scopes\.json|{re.escape(SERVED)}|cluster\.json|generation\.[1-9]\d{{0,17}}", re.ASCII
)
_IN_SHARD = re.compile(r"epoch|served|reserve|lost\.json|journal\.[1-9]\d{0,17}", re.ASCII)
_OF_NFS = ".nfs"
"""Prefix of NFS for files that were removed while open; NFS deletes them when they are closed."""


@dataclass
class FolderContents:
    """Content of a folder of a root.

    Attributes
    ----------
    file_bytes:
        Bytes of all files of daskevo.
    leftover:
        Files left by dead writers, with their bytes.
    foreign:
        Files, folders and links that are not daskevo's.
    """

    file_bytes: int = 0
    leftover: dict[Path, int] = field(default_factory=dict)
    foreign: list[Path] = field(default_factory=list)

    def _take(self, path: Path, status: os.stat_result, kept: re.Pattern[str], older_s: float) -> None:
        temporary = _TEMPORARY.fullmatch(path.name)
        name = path.name if temporary is None else temporary[1]
        if not stat.S_ISREG(status.st_mode) or not kept.fullmatch(name):
            self.foreign.append(path)
            return
        self.file_bytes += status.st_size
        # A younger one may have a running writer.
        if temporary is not None and time.time() - status.st_mtime >= older_s:
            self.leftover[path] = status.st_size


def recount_root(root: Path, shards: int, older_s: float) -> FolderContents:
    """List the root's own files, and the names of the shards' folders.

    Parameters
    ----------
    shards:
        Number of shards.
    older_s:
        Age from which temporary files count as leftovers, in seconds; 0 if there are no writers.
    """
    found = FolderContents()
    leases = {}
    for path, status in _entries(root):
        if path.name == "shards" and stat.S_ISDIR(status.st_mode):
            continue
        found._take(path, status, _IN_ROOT, older_s)
        if path.name.startswith("generation.") and path not in found.foreign and path not in found.leftover:
            leases[int(path.name.partition(".")[2])] = path, status.st_size
    # Only the highest one counts. Its creator removes the others; they are left if it dies before that.
    for number in sorted(leases)[:-1]:
        path, nbytes = leases[number]
        found.leftover[path] = nbytes
    names = {f"{number:03d}" for number in range(shards)}
    found.foreign += [
        path for path, status in _entries(root / "shards") if path.name not in names or not stat.S_ISDIR(status.st_mode)
    ]
    return found


def recount_shard(folder: Path, published: Collection[tuple[ModelId, Attempt]], older_s: float) -> FolderContents:
    """List a shard's folder.

    Parameters
    ----------
    published:
        Attempts whose segment is complete, so that a temporary file of them has no writer. The audit handles files of
        other attempts.
    """
    found = FolderContents()
    for path, status in _entries(folder):
        if path.name != "segments" or not stat.S_ISDIR(status.st_mode):
            found._take(path, status, _IN_SHARD, older_s)
    for path, status in _entries(folder / "segments"):
        parsed = parse_segment_name(path.name)
        if parsed is None or not stat.S_ISREG(status.st_mode):
            found.foreign.append(path)
            continue
        model_id, attempt, temporary = parsed
        found.file_bytes += status.st_size
        if temporary and (model_id, attempt) in published and time.time() - status.st_mtime >= older_s:
            found.leftover[path] = status.st_size
    return found


def remove_leftover(found: FolderContents) -> None:
    """Remove leftovers; raise RootUnusable if one can't be removed, after removing all others."""
    failed = None
    for path in found.leftover:
        try:
            with usable(path.parent, "remove a leftover file"):
                remove(path)
        except RootUnusable as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the entries of a folder by name, without following links; nothing for a missing folder."""
    with usable(folder, "list files"):
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
    for name in names:
        if not name.startswith(_OF_NFS):
            with usable(folder, "list files"), contextlib.suppress(FileNotFoundError):
                yield folder / name, os.lstat(folder / name)
