"""A shard's folder as its owner has it: whose it is (epochs), and its journal (protocol: One owner per shard)."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from daskevo.errors import CorruptRecord, RepositoryError, RootUnusable, ShardFenced
from daskevo.store.files import (
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

RESERVE = "reserve"
RESERVE_BYTES = 1 << 16
"""What a shard keeps back, beside as much as its head takes: for records that give room back, and its next opening."""
SHORT_BYTES = 1 << 20
"""A journal up to this size is read in no time, whatever is in it."""
HEADS = 4
"""A journal is long if it is as large as so many of its heads: then writing the head again costs less than it saved."""


T = TypeVar("T")


class Opening(NamedTuple):
    """What opening a shard found: its number in the sequence of owners, and the records that make its state."""

    epoch: int
    records: tuple[JSON, ...]


class ShardFolder(ShardSegments):
    """A shard on disk. Its owner calls `open`, makes the state, calls `serve`; then `append` and `delete`.

    Calls of the owner block on the disk: run them in a thread, one `append` or `delete` at a time or several (they are
    grouped).

    Parameters
    ----------
    root:
        The repository's folder.
    number:
        The shard's number.
    durability:
        What a flush promises.
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
        """Take the shard from whoever owns it, up to reading its state. It isn't served before `serve`.

        Parameters
        ----------
        generation:
            The coordinator's generation in whose name the shard is opened.
        turn:
            Held while records are parsed, and not while the disk is waited for.

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
            epoch = self._claim(generation)
            self._with_reserve(lambda: write_epoch(self.path, epoch, generation, sync=self._sync))
            numbers = journal_numbers(self.path)
            if not numbers or numbers[0] != epoch:
                raise self._overtaken(numbers[0] if numbers else epoch)
            try:
                content = newest_state(self.path, self.number, numbers[1:], turn)
            except FileNotFoundError:
                # Only an owner that came after removes journals.
                raise self._overtaken(epoch) from None
        self.epoch, self._generation = epoch, generation
        if content is None:
            return Opening(epoch, ())
        if content.generation > generation:
            raise self._overtaken(content.number)
        self._base = content.number
        return Opening(epoch, content.records)

    def serve(self, head: Iterable[JSON]) -> None:
        """Write the state as the head of this owner's journal; when it is flushed and checked, lower journals go.

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
            # From here on a shard without a complete head has lost something; before, it is new.
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
        """Whether the journal is worth to be renewed."""
        journal = self._journal
        return journal is not None and journal.nbytes > max(SHORT_BYTES, HEADS * journal.head_bytes)

    def renew(self, head: Iterable[JSON]) -> None:
        """Go on in a journal that starts from the state as it is now; the one that led there goes.

        The same as opening the shard anew, but that the state needn't be read: nobody but this owner can have written
        to its journal. So it takes the next number or none. If another opener has taken that, the shard is its; a head
        under a higher number would put this owner's state above that of others. For the same reason the head is whole
        before the epoch changes: until then nothing has happened, and on a full disk nothing will.

        The caller sees to it that nothing is appended meanwhile. `check` and `delete` may run beside it.

        Parameters
        ----------
        head:
            Records that recreate the state exactly, with all that was appended.

        Raises
        ------
        ShardFenced
            If the shard has another owner, or it can't be told: stop serving it, and open it again.
        RootUnusable
            If there is no room for another head: the shard goes on as before.
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
            # Left behind, it would be in the way of the next try; it counts for nobody.
            with usable(self.path, "renew a journal"):
                remove(fresh.path)
            raise
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
        """Make sure, by reading the epoch file anew, that nobody else has opened the shard since.

        Raises
        ------
        ShardFenced
            If someone has: stop serving, tell the coordinator; what was appended last has never been answered.
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
        """Append records, flush them if asked, then check; only when this returns may they be applied and answered.

        Parameters
        ----------
        records:
            JSON values. None of them, with `flush`: wait for what others have appended, and check.
        flush:
            Whether they survive what the setting promises when this returns.
        frees:
            Whether they give back room (a release, a drop, an abort): on a full disk these may use the reserve, or
            nothing could be retired there.

        Raises
        ------
        ShardFenced
            If the shard has another owner: the records are as if they had never been. Also if they were written and it
            can't be told whether they count (a failed fsync, an epoch that can't be read): opening the shard tells.
        RootUnusable
            If the disk is full or gone: nothing was appended, the shard may go on.
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
            self.check()
        except (RootUnusable, CorruptRecord) as error:
            raise self._stop(error) from error

    def give_up(self, found: str) -> ShardFenced:
        """Write nothing any more: whether the last records count can't be told. Return the error that says so."""
        return self._stop(RootUnusable(found))

    def close(self) -> None:
        """Stop owning the shard. Its folder stays as it is: the next owner opens it as if this one had died."""
        if self._journal is not None:
            with contextlib.suppress(RepositoryError):
                self._journal.flush()
            self._journal.close()
        self.epoch = None

    def delete(self, attempts: Iterable[tuple[ModelId, Attempt]], *, temporary: bool = False) -> int:
        """Delete the files of attempts, after flushing what allows it and checking.

        Parameters
        ----------
        temporary:
            Also those that their writers have not finished, for which the whole folder is listed.

        Returns
        -------
        int
            Bytes that were given back.

        Raises
        ------
        RootUnusable
            If one can't be deleted, after all others were: the next audit finds it.
        """
        wanted = set(attempts)
        if not wanted:
            return 0
        journal, _ = self._owned()
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
        def give_up() -> None:
            with usable(self.path, "use the reserve of a shard", 0):
                remove(self.path / RESERVE)

        return with_reserve(act, give_up)

    def _stop(self, cause: RepositoryError) -> ShardFenced:
        # What the state machine knows and what the journal holds may differ from here on.
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
        # Random, so that it takes room on file systems that compress. Without one, a full disk is a little worse.
        head_bytes = 0 if self._journal is None else self._journal.head_bytes
        with contextlib.suppress(OSError):
            found = os.stat(self.path / RESERVE).st_size if (self.path / RESERVE).exists() else 0
            if found < RESERVE_BYTES + head_bytes // 2:
                replace_file(self.path / RESERVE, os.urandom(RESERVE_BYTES + head_bytes))

    def _refuse_older(self, generation: int) -> None:
        # A damaged epoch file is no reason not to open: it is about to be replaced, the journals hold the truth.
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
                continue
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
