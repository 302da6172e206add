"""Shard servers over journals in memory: the edge of a shard as the protocol orders it, without files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from daskevo.ownership.messages import Message
from daskevo.ownership.records import Record
from daskevo.ownership.references import Segment
from daskevo.ownership.replies import Reply
from daskevo.ownership.shard import Decision, Shard
from daskevo.ownership.state import Effects


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


@dataclass(frozen=True)
class ServerRules:
    """Rules of the protocol that a server keeps; tests switch one off to see that something is lost."""

    check_epoch: bool = True
    read_highest_journal_only: bool = True
    renew_under_next_number: bool = True
    decide: Callable[[Shard, Message], Decision] = decide
    shard: type[Shard] = Shard


class Server:
    """One opening of a shard. It goes on answering until it crashes or finds a foreign epoch."""

    def __init__(self, disk: Disk, number: int, generation: int, rules: ServerRules) -> None:
        self.disk, self.rules, self.number = disk, rules, number
        journals = [disk.journals[n] for n in sorted(disk.journals)]
        read = list(journals[-1].records) if journals else []
        if not rules.read_highest_journal_only and journals:
            read = [*journals[0].records, *(record for late in journals[1:] for record in late.records[late.head :])]
        self.shard = rules.shard(number, generation, read)
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
        if not stalled and not self.check():
            return
        number = self.epoch + 1 if self.rules.renew_under_next_number else max(self.disk.journals) + 1
        if number in self.disk.journals:
            self.serving = False
            return
        head = self.shard.head()
        renewed = Journal(head, len(head), len(head))
        self.disk.journals[number] = renewed
        if max(self.disk.journals) != number or sorted(self.disk.journals)[-2] != self.epoch:
            self.serving = False
            return
        self.disk.epoch = self.epoch = number
        self.journal = renewed

    def begin_rewriting(self) -> dict[Segment, int]:
        """Return what is alive of each published segment, once it is sure that the rest is dead."""
        references = self.shard.state.references
        alive = {key: mask for key, mask in references.alive.items() if references.published.get(key[0]) == key[1]}
        self.journal.flush()
        return alive if self.check() else {}

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
