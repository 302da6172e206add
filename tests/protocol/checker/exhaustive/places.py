"""Shards with their servers and disks as values: what a message, a crash or another owner makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from daskevo.protocol.records import Generation, Record
from daskevo.protocol.references import References, Segment
from daskevo.protocol.shard import Shard
from daskevo.protocol.state import Model, Retirement, ShardState
from tests.protocol.checker.actors import Send
from tests.protocol.checker.exhaustive.canonical import Values, form_of
from tests.protocol.checker.promises import BrokenPromise
from tests.protocol.checker.providers import act_on
from tests.protocol.checker.servers import Disk, Journal, Server, ServerRules

OLD, NOW, ABOVE = 1, 3, 4
"""Numbers of journals: the old owner's, the present owner's, and what is above."""


@dataclass(frozen=True)
class Opening:
    """One opening of a shard: states by number of value."""

    state: int
    flushed: int
    """What its journal gives after a crash of the host, if nothing more had been written."""
    tail: tuple[Record, ...] = ()
    """Appended and not flushed."""


@dataclass(frozen=True)
class Place:
    """A shard: the opening that owns it, the one before that doesn't know yet, and its disk."""

    number: int
    current: Opening | None
    old: Opening | None = None
    files: frozenset[Segment] = frozenset()
    rewritten: frozenset[tuple[Segment, int]] = frozenset()
    """Files that were written anew, and the bitmap of what they hold; all others hold all."""
    above: int = -1
    """State that a whole journal gives which nobody has gone on in, and which the next to open the shard will read."""
    durable: int = -1
    """Nobody serves it: what its journal gives."""
    logs: tuple[tuple[Record, ...], ...] = ()
    """Only where all journals are read: what was appended to each after its head."""


@dataclass(frozen=True)
class Outcome:
    """What became of a place."""

    place: int
    reply: int | None = None
    """Value that is answered; None: no answer."""
    retirements: tuple[Retirement, ...] = ()
    """To be carried out by this opening."""


class Places:
    """All places that were found, by number of value, and what follows from each.

    A journal is kept as the state that its flushed part gives, and its unflushed tail: so histories that come to the
    same state are one. That the head of a state gives that state again is checked for every state.

    A renewal is two steps: the new journal is written, and its owner goes on in it; a crash, or another owner, may come
    between. An opening is one: its own steps beside those of a renewal are tried on real folders (`tests/faults`).
    """

    def __init__(self, values: Values, rules: ServerRules) -> None:
        self.values = values
        self.rules = rules
        self._known: dict[tuple[Any, ...], Any] = {}
        self._empty = rules.shard(0, 0).state

    def get(self, number: int) -> Place:
        """Return a place by number of value."""
        place: Place = self.values.values[number]
        return place

    def shard(self, place: Place, *, old: bool = False) -> Shard:
        """Return the shard of an opening, to look at."""
        opening = place.old if old else place.current
        assert opening is not None
        shard = self.rules.shard.__new__(self.rules.shard)
        shard.number, shard.state, shard.lost = place.number, self.values.values[opening.state], {}
        return shard

    def generation(self, number: int) -> int:
        """Return the generation under which a place was opened; 0 if nobody serves it."""
        place = self.get(number)
        return 0 if place.current is None else self.shard(place).state.generation

    def create(self, number: int, generation: int) -> int:
        """Return a new shard, opened."""
        empty = self._state(self._empty)
        return self.open(self._place(Place(number, None, durable=empty, logs=((),))), generation).place

    def handle(self, number: int, sent: int, die_after: int | None, *, old: bool) -> Outcome:
        """Let an opening handle a message (a `Send`); it dies after so many records, if any are given."""
        key = (number, sent, die_after, old)
        outcome: Outcome | None = self._known.get(key)
        if outcome is None:
            place = self.get(number)
            server = self._server(place, old=old)
            call: Send = self.values.values[sent]
            reply, effects = server.handle(call.message, die_after)
            retirements = tuple(retirement for effect in effects for retirement in effect.retire)
            outcome = Outcome(
                self._after(place, server, old=old), None if reply is None else self.values.add(reply), retirements
            )
            self._known[key] = outcome
        return outcome

    def records(self, number: int, sent: int) -> int:
        """Return how many records the owner of a place would append for a message."""
        key = ("records", number, sent)
        found: int | None = self._known.get(key)
        if found is None:
            decision = self.rules.decide(self.shard(self.get(number)), self.values.values[sent].message)
            found = self._known[key] = len(decision.records)
        return found

    def act(self, number: int, do: int, *, old: bool) -> Outcome:
        """Let the provider of an opening do something with it."""
        key = ("act", number, do, old)
        outcome: Outcome | None = self._known.get(key)
        if outcome is None:
            place = self.get(number)
            server = self._server(place, old=old)
            result = act_on(server, self.values.values[do])
            outcome = Outcome(self._after(place, server, old=old), self.values.add(result))
            self._known[key] = outcome
        return outcome

    def write(self, number: int, segment: Segment, mask: int | None = None) -> int:
        """Write a segment file, or write it anew with what a bitmap names."""
        place = self.get(number)
        rewritten = frozenset(file for file in place.rewritten if file[0] != segment)
        if mask is not None:
            rewritten |= {(segment, mask)}
        return self._place(replace(place, files=place.files | {segment}, rewritten=rewritten))

    def withdraw(self, number: int, segment: Segment) -> int:
        """Remove a segment file."""
        place = self.get(number)
        rewritten = frozenset(file for file in place.rewritten if file[0] != segment)
        return self._place(replace(place, files=place.files - {segment}, rewritten=rewritten))

    def half_dead(self, number: int) -> dict[Segment, int]:
        """Return what is to be kept of each file that the owner of a place may write anew."""
        key = ("half dead", number)
        found: dict[Segment, int] | None = self._known.get(key)
        if found is None:
            found = self._known[key] = self._server(self.get(number), old=False).half_dead()
        return found

    def allow_rewriting(self, number: int) -> int:
        """Let the owner of a place make sure that what is dead is dead for good."""
        place = self.get(number)
        server = self._server(place, old=False)
        server.allow_rewriting()
        return self._after(place, server, old=False)

    def open(self, number: int, generation: int) -> Outcome:
        """Open a shard: its present owner, if it has one, becomes the old one."""
        key = ("open", number, generation)
        outcome: Outcome | None = self._known.get(key)
        if outcome is None:
            place = self.get(number)
            if not self.rules.read_highest_journal_only:
                read: list[Record] = [record for log in place.logs for record in log]
                base: ShardState = self._empty
            elif place.current is None:
                read, base = [], self.values.values[place.durable]
            elif place.above >= 0:
                read, base = [], self.values.values[place.above]
            else:
                read, base = list(place.current.tail), self.values.values[place.current.flushed]
            shard = self.rules.shard(place.number, generation)
            shard.state = self._apply(base, read)
            shard.opening = shard.state.apply(Generation(generation))
            head = shard.head()
            self._check_head(shard, head)
            flushed = self._state(self.rules.shard(place.number, generation, head).state)
            opening = Opening(self._state(shard.state), flushed)
            logs = place.logs if self.rules.read_highest_journal_only else (*place.logs, ())
            files = place.files - set(shard.opening.segments)
            rewritten = frozenset(file for file in place.rewritten if file[0] in files)
            opened = Place(place.number, opening, place.current or place.old, files, rewritten, logs=logs)
            outcome = self._known[key] = Outcome(self._place(opened), None, tuple(shard.retiring()))
        return outcome

    def crash(self, number: int, kept: int) -> int:
        """Let the host of a place die: of what was not flushed, the first `kept` records had been written."""
        place = self.get(number)
        assert place.current is not None
        durable = place.above
        if durable < 0:
            durable = self._state(self._apply(self.values.values[place.current.flushed], place.current.tail[:kept]))
        logs = place.logs
        if not self.rules.read_highest_journal_only:
            lost = len(place.current.tail[kept:])
            logs = (*logs[:-1], logs[-1][: len(logs[-1]) - lost])
        return self._place(replace(place, current=None, above=-1, durable=durable, logs=logs))

    def forget_old(self, number: int) -> int:
        """Nobody asks the old owner any more."""
        place = self.get(number)
        return number if place.old is None else self._place(replace(place, old=None))

    def _server(self, place: Place, *, old: bool) -> Server:
        opening = place.old if old else place.current
        assert opening is not None
        server = Server.__new__(Server)
        server.rules, server.number, server.epoch, server.serving = self.rules, place.number, OLD if old else NOW, True
        server.shard = self.shard(place, old=old)
        server.shard.state = _copy(server.shard.state)
        server.journal = Journal(list(opening.tail), 0, 0)
        # The number after the old one's is that of the next owner, or was taken by its own renewal before.
        journals = {number: Journal([], 0, 0) for number in (OLD, OLD + 1, NOW)}
        if place.above >= 0:
            journals[ABOVE] = Journal([], 0, 0)
        journals[server.epoch] = server.journal
        server.disk = Disk(NOW, journals, set(place.files), dict(place.rewritten))
        return server

    def _after(self, place: Place, server: Server, *, old: bool) -> int:
        opening = place.old if old else place.current
        assert opening is not None
        written = server.journal.records
        flushed, above = opening.flushed, place.above
        journals = server.disk.journals
        if server.journal is not journals[OLD if old else NOW]:
            # It goes on in what it had written above its journal.
            written, flushed, above = [], place.above, -1
        elif above < 0 and ABOVE in journals:
            shard = self.rules.shard(place.number, server.shard.state.generation, journals[ABOVE].records)
            above = self._state(shard.state)
        elif server.journal.flushed:
            flushed = self._state(self._apply(self.values.values[flushed], written[: server.journal.flushed]))
        logs = place.logs
        if not self.rules.read_highest_journal_only:
            mine = len(logs) - 2 if old else len(logs) - 1
            new = tuple(written[len(opening.tail) :])
            logs = (*logs[:mine], logs[mine] + new, *logs[mine + 1 :])
        files = frozenset(server.disk.files)
        place = replace(
            place,
            files=files,
            rewritten=frozenset(file for file in place.rewritten if file[0] in files),
            above=above,
            logs=logs,
        )
        if not server.serving:
            if old:
                return self._place(replace(place, old=None))
            return self._place(replace(place, current=None, above=-1, durable=flushed if above < 0 else above))
        then = Opening(self._state(server.shard.state), flushed, tuple(written[server.journal.flushed :]))
        if self.rules.are_exact and not then.tail and then.state != then.flushed:
            raise BrokenPromise(f"the journal of shard {place.number} gives another state than its server has")
        if old:
            return self._place(replace(place, old=then))
        return self._place(replace(place, current=then))

    def _apply(self, state: ShardState, records: Iterable[Record]) -> ShardState:
        state = _copy(state)
        for record in records:
            state.apply(record)
        return state

    def _state(self, state: ShardState) -> int:
        known = len(self.values.values)
        number = self.values.add(state)
        if number == known and self.rules.shard is Shard:
            shard = self.rules.shard(0, state.generation)
            shard.state = state
            self._check_head(shard, shard.head())
        return number

    def _check_head(self, shard: Shard, head: list[Record]) -> None:
        if self.rules.shard(shard.number, shard.state.generation, head).state != shard.state:
            raise BrokenPromise(f"head of shard {shard.number} recreates another state")

    def _place(self, place: Place) -> int:
        forms = self.values.forms

        def opened(opening: Opening | None) -> Any:
            return opening and (forms[opening.state], forms[opening.flushed], form_of(opening.tail))

        durable = None if place.durable < 0 else forms[place.durable]
        form = (
            "place",
            place.number,
            opened(place.current),
            # What the old one still writes, nobody reads.
            place.old and forms[place.old.state],
            form_of(place.files),
            form_of(place.rewritten),
            None if place.above < 0 else forms[place.above],
            durable,
            form_of(place.logs),
        )
        return self.values.add(place, form)


def _copy(state: ShardState) -> ShardState:
    references = state.references
    return type(state)(
        state.generation,
        state.floor,
        {
            model_id: Model(model.record, model.state, model.file_bytes, dict(model.held), dict(model.released))
            for model_id, model in state.models.items()
        },
        dict(state.tombstones),
        {model_id: dict(attempts) for model_id, attempts in state.staged.items()},
        {model_id: set(attempts) for model_id, attempts in state.fences.items()},
        dict(state.ended_labels),
        References(
            {owner: dict(claims) for owner, claims in references.bits.items()},
            dict(references.alive),
            dict(references.published),
        ),
    )
