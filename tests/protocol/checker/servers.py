"""Shard servers over journals in memory: the edge of a shard as the protocol orders it, without files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from daskevo.protocol.messages import Message
from daskevo.protocol.records import Generation, Record
from daskevo.protocol.references import Segment, mask_of
from daskevo.protocol.replies import Reply
from daskevo.protocol.shard import Decision, Shard
from daskevo.protocol.state import Effects


@dataclass
class Journal:
    """Records in order; a crash may lose any tail of those that are not flushed."""

    records: list[Record]
    flushed: int
    head: int
    """How many of the records are the head."""

    def append(self, record: Record) -> None:
        self.records.append(record)

    def flush(self) -> None:
        self.flushed = len(self.records)


@dataclass
class Disk:
    """What outlives the server of a shard: journals by number, the epoch, segment files."""

    epoch: int = 0
    journals: dict[int, Journal] = field(default_factory=dict)
    files: set[Segment] = field(default_factory=set)
    rewritten: dict[Segment, int] = field(default_factory=dict)
    """Bitmap of the tensors in files that were written anew; all others hold all."""

    def lose_unflushed(self, kept: int = 0) -> None:
        """The host's memory is gone: of the records that were not flushed, the first `kept` had been written."""
        for journal in self.journals.values():
            del journal.records[journal.flushed + kept :]
            journal.flush()


def decide(shard: Shard, message: Message) -> Decision:
    """The shard's own decision."""
    return shard.decide(message)


def head(shard: Shard) -> list[Record]:
    """The shard's own head."""
    return shard.head()


def alive(shard: Shard, segment: Segment) -> int:
    """Bitmap of what any bits cover of a segment."""
    return shard.state.references.alive.get(segment, 0)


@dataclass(frozen=True)
class ServerRules:
    """Rules of the protocol that a server keeps; tests switch one off to see that something is lost."""

    check_epoch: bool = True
    read_highest_journal_only: bool = True
    renew_under_next_number: bool = True
    messages_wait_for_renewal: bool = True
    go_on_in_renewed: bool = True
    flush_before_rewriting: bool = True
    decide: Callable[[Shard, Message], Decision] = decide
    shard: type[Shard] = Shard
    renewed_head: Callable[[Shard], list[Record]] = head
    """What a renewed journal begins with."""
    rewritten: Callable[[Shard, Segment], int] = alive
    """What of a file is written anew."""

    @property
    def are_exact(self) -> bool:
        """Whether none is switched off that keeps what is in journals equal to what their servers know."""
        return (
            self.shard is Shard
            and self.renewed_head is head
            and self.messages_wait_for_renewal
            and self.go_on_in_renewed
        )


class Server:
    """One opening of a shard. It goes on answering until it crashes or finds a foreign epoch."""

    def __init__(self, disk: Disk, number: int, generation: int, rules: ServerRules) -> None:
        self.disk, self.rules, self.number = disk, rules, number
        journals = [disk.journals[n] for n in sorted(disk.journals)]
        read = list(journals[-1].records) if journals else []
        if not rules.read_highest_journal_only and journals:
            read = [*journals[0].records, *(record for late in journals[1:] for record in late.records[late.head :])]
        self.shard = rules.shard(number, generation, read)
        # What a shard makes of records that don't fit is no excuse for writing them.
        strict = rules.shard.state_class()
        for record in (*read, Generation(generation)):
            strict.apply(record)
        assert strict == self.shard.state, f"the records of shard {number} don't fit each other"
        self.epoch = max(disk.journals, default=0) + 1
        head = self.shard.head()
        self.journal = Journal(head, len(head), len(head))
        disk.journals[self.epoch] = self.journal
        disk.epoch = self.epoch
        self.serving = True
        self.delete(self.shard.opening)

    def handle(self, message: Message, die_after: int | None = None) -> tuple[Reply | None, list[Effects]]:
        """Decide, append, flush, check, apply, carry out, answer. `die_after`: crash after so many appended records."""
        decision = self.rules.decide(self.shard, message)
        records = decision.records if die_after is None else decision.records[:die_after]
        for record in records:
            self.journal.append(record)
        if die_after is not None:
            self.journal.flush()
            self.serving = False
            return None, []
        if decision.flush:
            self.journal.flush()
        if decision.check and not self.check():
            return None, []
        effects = [self.shard.apply(record) for record in decision.records]
        for effect in effects:
            self.delete(effect)
        return decision.reply, effects

    def renew(self, *, stalled: bool = False) -> None:
        """Go on in a journal that starts from the state as it is, under the next number or not at all.

        `stalled`: it has looked at the epoch long ago.
        """
        if stalled or self.check():
            self.write_renewed()
        if self.serving:
            self.take_renewed()

    def write_renewed(self) -> None:
        """Write a journal that starts from the state as it is; until it is taken, nothing has happened."""
        number = self.epoch + 1 if self.rules.renew_under_next_number else max(self.disk.journals) + 1
        if number in self.disk.journals:
            self.serving = False
            return
        head = self.rules.renewed_head(self.shard)
        self.disk.journals[number] = Journal(head, len(head), len(head))

    def take_renewed(self) -> None:
        """Go on in the journal that was written last, if nobody else has opened the shard since."""
        *_, mine, number = sorted(self.disk.journals)
        if mine != self.epoch:
            self.serving = False
            return
        self.disk.epoch = self.epoch = number
        if self.rules.go_on_in_renewed:
            self.journal = self.disk.journals[number]

    def half_dead(self) -> dict[Segment, int]:
        """Return what is to be kept of each published segment whose file holds more than that."""
        found = {}
        references = self.shard.state.references
        for owner, model in self.shard.state.models.items():
            segment = (owner, model.record.attempt)
            there = references.alive.get(segment, 0)
            if there and self.disk.rewritten.get(segment, mask_of(model.record.own)) & ~there:
                found[segment] = self.rules.rewritten(self.shard, segment)
        return found

    def allow_rewriting(self) -> bool:
        """Whether what is dead is dead for good: flush the records by which it died, and check."""
        if self.rules.flush_before_rewriting:
            self.journal.flush()
        return self.check()

    def check(self) -> bool:
        """Whether this is still the shard's owner; if not, it stops serving."""
        if self.rules.check_epoch and self.disk.epoch != self.epoch:
            self.serving = False
        return self.serving

    def delete(self, effects: Effects) -> None:
        """Delete the files of segments that are gone: record, flush, check, delete."""
        if effects.segments:
            self.journal.flush()
            if self.check():
                self.disk.files.difference_update(effects.segments)

    def delete_files(self, segments: tuple[Segment, ...]) -> None:
        """Delete files that the audit calls stray."""
        self.delete(Effects(segments=segments))
