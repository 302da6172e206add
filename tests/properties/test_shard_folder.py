"""A shard's folder on real files, under owners that come, overtake, die in the middle of a write, and come back.

The model recounts by the protocol alone: the state is what the last opener read, and what it has appended since; an
owner that was succeeded changes nothing; a crash loses a tail of what was not flushed, and nothing else.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from daskevo.errors import DaskevoError, ShardFenced
from daskevo.store import shard_folder as module
from daskevo.store.journal import Journal, journal_numbers, journal_path
from daskevo.store.root import Root
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.shard_state import read_shard
from daskevo.types import ModelId, Tick

SHARD = 1
BROKEN = (AssertionError, DaskevoError, pytest.fail.Exception)
"""What a machine that finds something ends in."""
TENSORS = {0: np.arange(3, dtype=np.float32)}


def _events(records: Any) -> list[int]:
    """What records come to: a head is one record with all events so far, so that each opening compacts."""
    events: list[int] = []
    for record in records:
        events = list(record) if isinstance(record, list) else [*events, record]
    return events


class Owners(RuleBasedStateMachine):
    """Owners of one shard; the model knows who opened it last, and whose journal holds its state."""

    openers = Bundle("openers")
    owners = Bundle("owners")

    @initialize(durability=st.sampled_from(["written", "synced"]))
    def create(self, durability: Any) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.root = Root.create(Path(self.folder.name) / "root", shards=4, durability=durability)
        self.synced = durability == "synced"
        self.generation = 1
        self.next = 0
        self.last: ShardFolder | None = None
        """Who opened the shard last, and lives; all others are fenced."""
        self.base: ShardFolder | None = None
        """Whose journal holds the state."""
        self.base_epoch = 0
        self.flushed: list[int] = []
        self.flushed_bytes = 0
        self.tail: list[tuple[int, int]] = []
        """What isn't flushed: event, size of the journal with it."""
        self.late: list[int] = []
        """Appended by a fenced owner, never answered: it counts if nobody who had read before serves."""
        self.files: set[tuple[ModelId, Tick]] = set()

    def teardown(self) -> None:
        self.folder.cleanup()

    @property
    def events(self) -> list[int]:
        return self.flushed + [event for event, _ in self.tail]

    @rule(target=openers, step=st.sampled_from([0, 0, 0, 1]))
    def open(self, step: int) -> Any:
        self.generation += step
        folder = self.root.shard(SHARD)
        opening = folder.open(self.generation)
        assert _events(opening.records) == self.events + self.late
        self.last = folder
        return folder, self.events + self.late

    @rule()
    def open_under_a_past_generation(self) -> None:
        if self.last is not None and self.generation > 1 and self.last.path.joinpath("epoch").exists():
            with pytest.raises(ShardFenced):
                self.root.shard(SHARD).open(0)

    @rule(target=owners, opener=consumes(openers))
    def serve(self, opener: tuple[ShardFolder, list[int]]) -> Any:
        folder, read = opener
        if folder is not self.last:
            # What it writes is no more than it had read, in a journal below that of who came after it, or above.
            with pytest.raises(ShardFenced):
                folder.serve([read])
            self._has_head(folder, read, None)
            return multiple()
        folder.serve([read])
        self._has_head(folder, read, folder)
        assert journal_numbers(folder.path) == [folder.epoch]
        return folder

    @rule(opener=consumes(openers), share=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    def die_while_serving(self, opener: tuple[ShardFolder, list[int]], share: float) -> None:
        """The head is written in part, or in full; lower journals are there yet."""
        folder, read = opener
        journal, epoch = folder._owned()
        journal.write_head([read], base=folder._base)
        journal.close()
        path = journal_path(folder.path, epoch)
        if path.exists():
            size = path.stat().st_size
            os.truncate(path, int(size * share))
            if int(size * share) == size:
                self._has_head(folder, read, None)
        if folder is self.last:
            self.last = None

    @rule(owner=owners, count=st.integers(1, 3), flush=st.booleans())
    def append(self, owner: ShardFolder, count: int, flush: bool) -> None:
        events = list(range(self.next, self.next + count))
        self.next += count
        if owner is not self.last:
            if owner is self.base and owner._fenced is None:
                self.late += events
            with pytest.raises(ShardFenced):
                owner.append(events, flush=flush)
            return
        for event in events:
            owner.append([event], flush=flush)
            self.tail.append((event, _size(owner)))
        # In the file is flushed, unless the host must be survived.
        if flush or not self.synced:
            self.flushed, self.tail, self.flushed_bytes = self.events, [], _size(owner)

    @rule(owner=owners)
    def renew(self, owner: ShardFolder) -> None:
        """The journal starts anew from the state as it is; only that of the owner does."""
        if owner is not self.last:
            with pytest.raises(ShardFenced):
                owner.renew(["stale"])
            return
        owner.renew([self.events])
        self._has_head(owner, self.events, owner)
        assert journal_numbers(owner.path)[0] == owner.epoch

    @rule(owner=consumes(owners), share=st.sampled_from([0.0, 0.5, 0.9, 1.0]))
    def die_while_renewing(self, owner: ShardFolder, share: float) -> None:
        """The new head is written in part, or in full; the epoch is the old one yet."""
        if owner is not self.last:
            return
        number = (owner.epoch or 0) + 1
        journal = Journal(owner.path, SHARD, number, self.generation, sync=self.synced)
        journal.write_head([self.events], base=owner.epoch or 0)
        journal.close()
        path = journal_path(owner.path, number)
        size = path.stat().st_size
        os.truncate(path, int(size * share))
        self.last = None
        if share == 1.0:
            self.flushed, self.tail, self.late = self.events, [], []
            self.base, self.base_epoch, self.flushed_bytes = None, number, size

    @rule(owner=consumes(owners), share=st.floats(0, 1, exclude_max=True))
    def die(self, owner: ShardFolder, share: float) -> None:
        """In the middle of an append: of what was not flushed, any first part may be there, cut anywhere."""
        if owner is not self.last:
            return
        journal, epoch = owner._owned()
        journal.append(["under way"])
        end = self.flushed_bytes + int((_size(owner) - self.flushed_bytes) * share)
        journal.close()
        os.truncate(journal_path(owner.path, epoch), end)
        self.flushed, self.tail = self.flushed + [event for event, upto in self.tail if upto <= end], []
        self.last = None

    @rule(number=st.integers(0, 3))
    def write_segment(self, number: int) -> None:
        """Nobody needs to own the shard for that."""
        segment = ModelId("m"), Tick(1, number)
        self.root.shard(SHARD).write_segment(*segment, TENSORS)
        self.files.add(segment)

    @rule(owner=owners, number=st.integers(0, 3))
    def delete(self, owner: ShardFolder, number: int) -> None:
        segment = ModelId("m"), Tick(1, number)
        if owner is not self.last:
            with pytest.raises(ShardFenced):
                owner.delete([segment])
            return
        assert (owner.delete([segment]) > 0) == (segment in self.files)
        self.files.discard(segment)
        self.flushed, self.tail, self.flushed_bytes = self.events, [], _size(owner)

    @invariant()
    def the_state_is_what_was_recounted(self) -> None:
        assert _events(read_shard(self.root.path, SHARD)) == self.events + self.late

    @invariant()
    def the_files_are_those_that_nobody_deleted(self) -> None:
        found = {(file.model_id, file.attempt) for file in self.root.shard(SHARD).segments()}
        assert found == self.files

    def _has_head(self, folder: ShardFolder, read: list[int], owner: ShardFolder | None) -> None:
        """A journal has a complete head: it holds the state, unless one above it does."""
        epoch = folder.epoch or 0
        if epoch > self.base_epoch and journal_path(folder.path, epoch).exists():
            self.base, self.base_epoch = owner, epoch
            self.flushed, self.tail, self.late = read, [], []
            self.flushed_bytes = journal_path(folder.path, epoch).stat().st_size


def _size(owner: ShardFolder) -> int:
    return journal_path(owner.path, owner.epoch or 0).stat().st_size


Owners.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestOwners = Owners.TestCase


def _answer_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShardFolder, "check", lambda self: None)


def _read_the_lowest_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    newest_state = module.newest_state
    monkeypatch.setattr(
        module, "newest_state", lambda path, shard, numbers, turn: newest_state(path, shard, numbers[::-1])
    )


def _serve_before_the_head_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    write_head = Journal.write_head

    def cut_short(self: Journal, records: Any, *, base: int) -> None:
        write_head(self, records, base=base)
        os.truncate(self.path, self.path.stat().st_size - 1)

    monkeypatch.setattr(Journal, "write_head", cut_short)


def _succession() -> None:
    """One way through the machine: an owner is cut off between a look and a head, and its successor dies."""
    machine = Owners()
    machine.create(durability="written")
    try:
        first = machine.serve(opener=machine.open(step=0))
        machine.append(owner=first, count=2, flush=True)
        machine.the_state_is_what_was_recounted()
        second = machine.open(step=0)
        machine.append(owner=first, count=1, flush=True)
        machine.die_while_serving(opener=second, share=1.0)
        machine.the_state_is_what_was_recounted()
        machine.serve(opener=machine.open(step=1))
        machine.the_state_is_what_was_recounted()
    finally:
        machine.teardown()


def test_one_succession() -> None:
    _succession()


@pytest.mark.parametrize(
    "leave_out", [_answer_without_looking, _read_the_lowest_journal, _serve_before_the_head_is_complete]
)
def test_the_machine_misses_a_rule(
    leave_out: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch)
    with pytest.raises(BROKEN):
        _succession()
