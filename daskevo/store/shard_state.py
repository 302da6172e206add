"""Which journal holds a shard's state, and who owns the shard: the parts of its folder that anyone may read."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from daskevo.errors import CorruptRecord, LaterVersion, ShardDamaged
from daskevo.store.files import (
    corrupt,
    dump_json,
    parse_json,
    read_small,
    refuse_later,
    refuse_links,
    replace_file,
    usable,
)
from daskevo.store.journal import journal_numbers
from daskevo.store.journal_reader import JournalContent, read_journal
from daskevo.types import JSON

FORMAT = 1
_UNREADABLE = (errno.EIO, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP)
"""Errors of one file, where the disk as a whole may well work."""
SERVED = "served.json"
"""File of the root, there once all shards were served: from then on a shard without a state has lost it."""


class Epoch(NamedTuple):
    """What the epoch file says: the owner's number, and the coordinator's generation that it belongs to."""

    epoch: int
    generation: int


def shard_path(root: str | os.PathLike[str], number: int) -> Path:
    """Return the folder of a shard."""
    return Path(root) / "shards" / f"{number:03d}"


def was_served(folder: Path) -> bool:
    """Whether the shard of this folder was served once: its own mark says so, or that of the root."""
    return (folder.parent.parent / SERVED).exists() or (folder / "served").exists()


def lost(folder: Path, found: str) -> ShardDamaged:
    """Return the error for a shard whose state is gone or damaged, with what can be done about it."""
    return damaged(folder, corrupt(folder, found, 0))


def damaged(folder: Path, error: CorruptRecord) -> ShardDamaged:
    """Return the error for a shard that can't be served because something in its folder is damaged."""
    if isinstance(error, ShardDamaged):
        return error
    facts = error.facts
    if isinstance(error, LaterVersion):
        return ShardDamaged(
            f"{error.message}. Meanwhile the other shards can be used",
            shard=int(folder.name),
            folder=os.fspath(folder),
            path=facts.get("path"),
        )
    what = error.message.rstrip(".")
    if {"path", "offset", "found"} <= facts.keys():
        what = f"{facts['path']} is damaged at byte {facts['offset']}: {facts['found']}"
    return ShardDamaged(
        f"{what}. {_remedy(folder)}", shard=int(folder.name), folder=os.fspath(folder), path=facts.get("path")
    )


def _remedy(folder: Path) -> str:
    return (
        f"Restore the folder {folder} from a copy and open the repository again; meanwhile the other shards can be "
        "used. Nothing of it was used or changed"
    )


def read_epoch(folder: Path) -> Epoch:
    """Read a shard's epoch file anew; raises CorruptRecord if it is damaged, OSError if it can't be read."""
    path = folder / "epoch"
    value = parse_json(read_small(path, 4096), path, "the epoch")
    refuse_later(value, path, FORMAT)
    match value:
        case {"format": 1, "epoch": int(epoch), "generation": int(generation)}:
            return Epoch(epoch, generation)
    raise corrupt(path, f"no epoch of format {FORMAT}: {str(value)[:80]}", 0)


def write_epoch(folder: Path, epoch: int, generation: int, *, sync: bool) -> None:
    """Replace a shard's epoch file."""
    value = {"format": FORMAT, "epoch": epoch, "generation": generation}
    replace_file(folder / "epoch", dump_json(value), sync=sync)


def newest_state(
    folder: Path, shard: int, numbers: Iterable[int], turn: threading.Lock | None = None
) -> JournalContent | None:
    """Return the first complete journal of `numbers`, which are highest first; None if the shard is new.

    Parameters
    ----------
    turn:
        As in `read_journal`.

    Raises
    ------
    ShardDamaged
        If it is damaged or can't be read, or there is none although the shard was served once.
    FileNotFoundError
        If one has been removed meanwhile: there is a newer owner.
    """
    # Asked before anything is read: who completes a head and serves meanwhile is a lower opener, which has answered
    # nobody and will see that there is a higher one, or a higher one itself.
    was = was_served(folder)
    for number in numbers:
        try:
            content = read_journal(folder, shard, number, turn)
        except CorruptRecord as error:
            raise damaged(folder, error) from error
        except OSError as error:
            if error.errno not in _UNREADABLE:
                raise
            unreadable = corrupt(error.filename or folder, f"it can't be read ({error.strerror})", 0)
            raise damaged(folder, unreadable) from error
        if content.complete:
            return content
    if was:
        raise lost(folder, "the shard was served once, but no journal with a complete head is left")
    return None


def read_shard(root: str | os.PathLike[str], number: int) -> tuple[JSON, ...]:
    """Return the records that make a shard's state now; of one that was never served none. Raises as `read_state`."""
    content = read_state(root, number)
    return () if content is None else content.records


def read_state(root: str | os.PathLike[str], number: int) -> JournalContent | None:
    """Return the journal that makes a shard's state now, without owning it (a look without a cluster).

    Raises
    ------
    CorruptRecord, RootUnusable
        As in :meth:`daskevo.store.shard_folder.ShardFolder.open`. None: the shard was never served.
    """
    folder = shard_path(root, number)
    refuse_links(folder, folder / "segments")
    with usable(folder, "read a shard"):
        while True:
            try:
                numbers = journal_numbers(folder)
            except FileNotFoundError:
                os.stat(folder.parent.parent)
                if was_served(folder):
                    raise lost(folder, "the shard was served once, but its folder is gone") from None
                os.stat(folder.parent)
                return None
            try:
                return newest_state(folder, number, numbers)
            except FileNotFoundError:
                continue  # A new owner has removed it, so there is a higher one now.
            except CorruptRecord:
                # The list may be older than the journal that its owner has served from since.
                if journal_numbers(folder) != numbers:
                    continue
                raise
