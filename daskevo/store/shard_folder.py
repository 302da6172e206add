"""A shard's folder as its owner uses it: epochs decide who owns it, and a journal has its records.

The rules are in the protocol, "One owner per shard".
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from daskevo.errors import CorruptRecord, RepositoryError, RootUnusable, ShardFenced
from daskevo.store.files import (
    RESERVE,
    Durability,
    create_file,
    dump_json,
    refuse_links,
    remove,
    replace_file,
    usable,
    with_reserve,
)
from daskevo.store.journal import Journal, journal_numbers, journal_path
from daskevo.store.shard_segments import ShardSegments
from daskevo.store.shard_state import FORMAT, newest_state, read_epoch, write_epoch
from daskevo.types import JSON, Attempt, ModelId

RESERVE_BYTES = 1 << 16
"""Bytes that a shard keeps in reserve, in addition to the size of its journal's head: for records that free space on a
full disk, and for its next opening."""
SHORT_BYTES = 1 << 20
"""Size in bytes up to which a journal is not renewed, since reading it takes hardly any time."""
HEADS = 4
"""A journal is long if it is larger than this many times its head: then writing a new head costs less than it saves."""


T = TypeVar("T")


class Opening(NamedTuple):
    """Result of opening a shard: the epoch of the new owner, and the records that make up the state."""

    epoch: int
    records: tuple[JSON, ...]


class ShardFolder(ShardSegments):
    """A shard on disk. Its owner calls `open`, recreates the state, calls `serve`, and then `append` and `delete`.

    These methods block on the disk, so run them in threads. Several may run at once; their flushes are grouped.

    Parameters
    ----------
    root:
        The repository's folder.
    number:
        The shard's number.
    durability:
        Durability of flushed records.
    """

    def __init__(self, root: str | os.PathLike[str], number: int, *, durability: Durability = "written") -> None:
        super().__init__(root, number, durability=durability)
        self.epoch: int | None = None
        self._journal: Journal | None = None
        self._base = 0
        self._generation = 0
        self._renewing = threading.Lock()
        self._fenced: ShardFenced | None = None

    # -- ownership ------------------------------------------------------------------------------------------------

    def open(self, generation: int, turn: threading.Lock | None = None) -> Opening:
        """Take the shard from its present owner, and read its state. It must not be served before `serve`.

        Parameters
        ----------
        generation:
            Generation of the coordinator that opens the shard.
        turn:
            Lock that is held while records are parsed, but not while waiting for the disk.

        Raises
        ------
        ShardFenced
            If another opener has overtaken this one, or a later generation has the shard.
        CorruptRecord
            If the journal that holds the state is damaged, or missing although the shard was served once.
        RootUnusable
            If the folder can't be read or written.
        """
        refuse_links(self.path, self.segments_path)
        if self._journal is not None:
            raise ShardFenced(
                f"shard {self.number} was opened by this object before; make a new one", shard=self.number
            )
        with usable(self.path, "open a shard", 0):
            self._make_folders()
            self._refuse_older(generation)
            # The order fences the former owner: claim a number, publish it in the epoch file, and only then read the
            # state. From the epoch on, the former owner's appends fail their check, so no record counts that was not
            # there to be read.
            epoch = self._claim(generation)
            self._with_reserve(lambda: write_epoch(self.path, epoch, generation, sync=self._sync))
            numbers = journal_numbers(self.path)
            if not numbers or numbers[0] != epoch:
                raise self._overtaken(numbers[0] if numbers else epoch)
            try:
                content = newest_state(self.path, self.number, numbers[1:], turn)
            except FileNotFoundError:
                # Only a later owner removes journals.
                raise self._overtaken(epoch) from None
        self.epoch, self._generation = epoch, generation
        if content is None:
            return Opening(epoch, ())
        if content.generation > generation:
            raise self._overtaken(content.number)
        self._base = content.number
        return Opening(epoch, content.records)

    def serve(self, head: Iterable[JSON]) -> None:
        """Write the state as the head of this owner's journal, flush and check it, and delete earlier journals.

        Parameters
        ----------
        head:
            Records that recreate the state exactly.

        Raises
        ------
        ShardFenced, RootUnusable
            As in `open`: the shard isn't served then.
        """
        journal, epoch = self._owned()
        rows = head if isinstance(head, Sequence) else tuple(head)
        self._with_reserve(lambda: journal.write_head(rows, base=self._base))
        with usable(self.path, "serve a shard", 0):
            # This file tells a new shard from one that has lost its journals: without it, a shard without a complete
            # head is new.
            served = dump_json({"format": FORMAT})
            self._with_reserve(lambda: create_file(self.path / "served", served, sync=self._sync))
            self.check()
            numbers = journal_numbers(self.path)
            if numbers[:1] != [epoch]:
                self._fenced = self._overtaken(numbers[0] if numbers else epoch)
                raise self._fenced
            for number in numbers[1:]:
                remove(journal_path(self.path, number))
        self._renew_reserve()

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal."""
        return 0 if self._journal is None else self._journal.nbytes

    @property
    def is_long(self) -> bool:
        """Whether the journal is long enough to be renewed."""
        journal = self._journal
        return journal is not None and journal.nbytes > max(SHORT_BYTES, HEADS * journal.head_bytes)

    def renew(self, head: Iterable[JSON]) -> None:
        """Replace the journal by one that starts with the present state.

        This is like opening the shard again without reading the state, which only this owner can have changed. It must
        take exactly the next number. If another opener has that number, the shard belongs to it; under a higher number,
        this owner's state would override the state of others. For the same reason, the head is complete before the
        epoch changes: until then nothing has happened, and a full disk only makes the renewal fail.

        The caller must not append meanwhile. `check` and `delete` may run concurrently.

        Parameters
        ----------
        head:
            Records that recreate the state exactly, including everything appended.

        Raises
        ------
        ShardFenced
            If the shard has another owner, or that can't be determined: stop serving it, and open it again.
        RootUnusable
            If there is no space for another head: the shard goes on with the old journal.
        """
        journal, epoch = self._owned()
        self.check()
        with usable(self.path, "renew a journal", 0):
            try:
                fresh = Journal(self.path, self.number, epoch + 1, self._generation, sync=self._sync)
            except FileExistsError:
                self._fenced = self._overtaken(epoch + 1)
                raise self._fenced from None
        try:
            fresh.write_head(head, base=epoch)
        except BaseException:
            fresh.close()
            # An incomplete journal is ignored by openers, but its number would block the next renewal.
            with usable(self.path, "renew a journal"):
                remove(fresh.path)
            raise
        # `check` compares the epoch file with `self.epoch`, so it must not run between the changes of the two.
        with self._renewing:
            try:
                with usable(self.path, "renew a journal", 0):
                    self._refuse_others([epoch + 1, epoch])
                    write_epoch(self.path, epoch + 1, self._generation, sync=self._sync)
                    self._refuse_others([epoch + 1, epoch])
            except ShardFenced as error:
                self._fenced = error
                raise
            except RepositoryError as error:
                raise self._stop(error) from error
            self._journal, self.epoch = fresh, epoch + 1
        self.check()
        with usable(self.path, "renew a journal"):
            remove(journal.path)

    def check(self) -> None:
        """Check, by reading the epoch file again, that no other owner has opened the shard.

        Raises
        ------
        ShardFenced
            If there is another owner: stop serving, and tell the coordinator; the last records were never answered.
        RootUnusable, CorruptRecord
            If the epoch can't be read.
        """
        if self._fenced is not None:
            raise self._fenced
        with self._renewing, usable(self.path, "read the epoch of a shard"):
            epoch, generation = read_epoch(self.path)
            mine = self.epoch
        if epoch != mine:
            self._fenced = ShardFenced(
                f"shard {self.number} was opened with epoch {epoch} by generation {generation}; this owner has epoch "
                f"{mine} and must stop serving it",
                shard=self.number,
                epoch=mine,
                found_epoch=epoch,
                found_generation=generation,
            )
            raise self._fenced

    def append(self, records: Sequence[JSON], *, flush: bool = True, frees: bool = False) -> None:
        """Append records, flush them if asked, and check the epoch; apply and answer them only after this returns.

        Parameters
        ----------
        records:
            JSON values. With `flush` and no records, wait until earlier records are flushed, and check.
        flush:
            Whether the records have the promised durability when this returns.
        frees:
            Whether the records free space (a release, a drop, an abort): on a full disk these may use the reserve,
            since otherwise nothing could be retired there.

        Raises
        ------
        ShardFenced
            If the shard has another owner: the records have no effect. Also if it can't be determined whether written
            records are in effect (a failed fsync, an unreadable epoch), which opening the shard again decides.
        RootUnusable
            If the disk is full or gone: nothing was appended, and the shard can go on.
        InvalidInput
            If a record isn't JSON, or larger than 64 MiB.
        """
        if self._fenced is not None:
            raise self._fenced
        journal, _ = self._owned()
        try:
            position = self._append(journal, records, frees)
        except RootUnusable as error:
            if journal.broken:
                raise self._stop(error) from error
            raise
        try:
            if flush:
                journal.flush(position)
            # After the flush: an opener that changes the epoch later reads the flushed records.
            self.check()
        except (RootUnusable, CorruptRecord) as error:
            raise self._stop(error) from error

    def give_up(self, found: str) -> ShardFenced:
        """Stop writing, since it is unknown whether the last records are in effect; return the error to raise."""
        return self._stop(RootUnusable(found))

    def close(self) -> None:
        """Stop owning the shard. The folder stays as it is, and the next owner opens it as after a crash."""
        if self._journal is not None:
            with contextlib.suppress(RepositoryError):
                self._journal.flush()
            self._journal.close()
        self.epoch = None

    def delete(self, attempts: Iterable[tuple[ModelId, Attempt]], *, temporary: bool = False) -> int:
        """Delete the files of attempts, after flushing the records that allow it and checking the epoch.

        Parameters
        ----------
        temporary:
            Whether to delete unfinished files, too, for which the whole folder is listed.

        Returns
        -------
        int
            Bytes freed.

        Raises
        ------
        RootUnusable
            If a file can't be deleted; all others have been, and the next audit finds it.
        """
        wanted = set(attempts)
        if not wanted:
            return 0
        journal, _ = self._owned()
        # A file deleted before its record is on disk would be missing after a crash; one deleted by a fenced owner may
        # be in use again.
        journal.flush()
        self.check()
        freed = self._remove_segments(wanted, temporary=temporary)
        self._renew_reserve()
        return freed

    # -- parts ----------------------------------------------------------------------------------------------------

    def _append(self, journal: Journal, records: Sequence[JSON], frees: bool) -> int:
        if not frees:
            return journal.append(records)
        return self._with_reserve(lambda: journal.append(records))

    def _with_reserve(self, act: Callable[[], T]) -> T:
        return with_reserve(act, self.path.parent, self.path.name)

    def _stop(self, cause: RepositoryError) -> ShardFenced:
        # From here on, the state machine and the journal may differ.
        self._fenced = ShardFenced(
            f"whether the last records of shard {self.number} count can't be told: {cause.message}. Stop serving it, "
            "and open it again",
            shard=self.number,
            epoch=self.epoch,
            found_epoch=None,
            found_generation=None,
        )
        return self._fenced

    def _renew_reserve(self) -> None:
        # Random bytes, so that it takes space on file systems that compress. Failing to write it is no error: a full
        # disk is then only harder to free.
        head_bytes = 0 if self._journal is None else self._journal.head_bytes
        with contextlib.suppress(OSError):
            found = os.stat(self.path / RESERVE).st_size if (self.path / RESERVE).exists() else 0
            if found < RESERVE_BYTES + head_bytes // 2:
                replace_file(self.path / RESERVE, os.urandom(RESERVE_BYTES + head_bytes))

    def _refuse_older(self, generation: int) -> None:
        # A damaged epoch file does not prevent opening: it is replaced next, and the journals decide.
        with contextlib.suppress(FileNotFoundError, CorruptRecord):
            epoch, found = read_epoch(self.path)
            if found > generation:
                raise ShardFenced(
                    f"shard {self.number} belongs to generation {found}; generation {generation} may not open it",
                    shard=self.number,
                    epoch=None,
                    found_epoch=epoch,
                    found_generation=found,
                )

    def _claim(self, generation: int) -> int:
        epoch = 0
        with contextlib.suppress(FileNotFoundError, CorruptRecord):
            epoch = read_epoch(self.path)[0]
        while True:
            epoch = max([epoch, *journal_numbers(self.path)]) + 1
            try:
                self._journal = Journal(self.path, self.number, epoch, generation, sync=self._sync)
            except FileExistsError:
                continue  # another opener was faster: creating the file decides who has a number
            return epoch

    def _refuse_others(self, mine: list[int]) -> None:
        numbers = journal_numbers(self.path)
        if numbers[: len(mine)] != mine:
            raise self._overtaken(next((number for number in numbers if number not in mine), mine[0]))

    def _owned(self) -> tuple[Journal, int]:
        if self._journal is None or self.epoch is None:
            raise ShardFenced(f"shard {self.number} isn't open here", shard=self.number)
        return self._journal, self.epoch

    def _overtaken(self, number: int) -> ShardFenced:
        return ShardFenced(
            f"another opener has overtaken this one at shard {self.number} (journal {number})",
            shard=self.number,
            epoch=self.epoch,
            found_epoch=number,
            found_generation=None,
        )
