"""Read a shard's state and epoch from its folder, which any process may do without owning the shard."""

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
    read_json,
    refuse_links,
    replace_file,
    usable,
)
from daskevo.store.journal import journal_numbers
from daskevo.store.journal_reader import JournalContent, read_journal
from daskevo.types import JSON

FORMAT = 1
_UNREADABLE = (errno.EIO, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP)
"""Errors of single files, while the disk as a whole may work."""
SERVED = "served.json"
"""File of the root that exists once all shards were served: from then on, a shard without a state has lost it."""


class Epoch(NamedTuple):
    """Content of the epoch file: the epoch of the owner, and the generation of its coordinator."""

    epoch: int
    generation: int


def shard_path(root: str | os.PathLike[str], number: int) -> Path:
    """Return the folder of a shard."""
    return Path(root) / "shards" / f"{number:03d}"


def was_served(folder: Path) -> bool:
    """Whether the shard of this folder was ever served, according to its own mark or that of the root."""
    return (folder.parent.parent / SERVED).exists() or (folder / "served").exists()


def lost(folder: Path, found: str) -> ShardDamaged:
    """Return the error for a shard whose state is gone, with advice."""
    return damaged(folder, corrupt(folder, found, 0))


def damaged(folder: Path, error: CorruptRecord) -> ShardDamaged:
    """Return the error for a shard that can't be served because a file in its folder is damaged."""
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
    """Read a shard's epoch file; raise CorruptRecord if it is damaged, OSError if it can't be read."""
    path = folder / "epoch"
    value = read_json(path, "the epoch", FORMAT, 4096)
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
    """Return the first complete journal of `numbers`, sorted in descending order; None if the shard is new.

    Parameters
    ----------
    turn:
        As in `read_journal`.

    Raises
    ------
    ShardDamaged
        If a journal is damaged or can't be read, or there is none although the shard was served before.
    FileNotFoundError
        If a journal has been removed meanwhile: there is a newer owner.
    """
    # Determined before reading: an opener that completes a head and serves meanwhile either has a lower number, answers
    # nothing and notices the higher one, or has a higher number itself. Neither means that the state is lost.
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
    """Return the records of a shard's present state, none if it was never served; raise the errors of `read_state`."""
    content = read_state(root, number)
    return () if content is None else content.records


def read_state(root: str | os.PathLike[str], number: int) -> JournalContent | None:
    """Return the journal with a shard's present state, without owning it; None if the shard was never served.

    Raises
    ------
    CorruptRecord, RootUnusable
        As in :meth:`daskevo.store.shard_folder.ShardFolder.open`.
    """
    folder = shard_path(root, number)
    refuse_links(folder, folder / "segments")
    with usable(folder, "read a shard"):
        while True:
            try:
                numbers = journal_numbers(folder)
            except FileNotFoundError:
                os.stat(folder.parent.parent)  # raises if the whole root is gone, which is another error
                if was_served(folder):
                    raise lost(folder, "the shard was served once, but its folder is gone") from None
                os.stat(folder.parent)
                return None
            try:
                return newest_state(folder, number, numbers)
            except FileNotFoundError:
                continue  # a new owner has removed it, so there is a higher one now
            except CorruptRecord:
                # Real only if the list is unchanged: a new owner may have written a newer journal meanwhile.
                if journal_numbers(folder) != numbers:
                    continue
                raise
