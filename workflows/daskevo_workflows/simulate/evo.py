"""The simulated repository: the real state machines of its shards and its coordinator, and what they cost.

Each message is decided by the shard that it goes to, at the moment at which it gets there; what it costs is charged to
the provider that serves the shard. Best matches are those of the real index: one over all models instead of one for
each provider, which gives the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from daskevo.graph import ArchitectureGraph, Prefix, longest_common_prefix
from daskevo.index import PrefixIndex
from daskevo.protocol import replies as say
from daskevo.protocol import scripts
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import TaskHolder
from daskevo.protocol.messages import Drop, Hold, Message, Put, Refer, Release
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.shard import Shard
from daskevo.protocol.steps import (
    Begin,
    End,
    EndInBackground,
    Find,
    IsServed,
    OnOwnShard,
    Reserve,
    Script,
    Step,
    Together,
)
from daskevo.runs import LabelChange
from daskevo.search import Request
from daskevo.types import Attempt, ModelId
from daskevo_workflows.simulate.clock import Clock, Server
from daskevo_workflows.simulate.costs import MeasuredCosts
from daskevo_workflows.simulate.storing import DIGEST, SCOPE, Inherited, Steps, StoredSizes

TRIES = 3
"""Ancestors that are tried, one after the other, before nothing is inherited."""


class Evo:
    """A repository of ours.

    Parameters
    ----------
    providers:
        A server for each.
    scheduler:
        Where the coordinator is.
    shards:
        Of the repository.
    retire:
        False: models that leave the population stay, for comparison.
    """

    def __init__(
        self, clock: Clock, costs: MeasuredCosts, providers: list[Server], scheduler: Server, shards: int, retire: bool
    ) -> None:
        self.messages: Counter[str] = Counter()
        self.by_shard: Counter[int] = Counter()
        self.gone = 0
        """Matches that could not be reserved any more."""
        self._clock, self._costs, self._providers, self._scheduler = clock, costs, providers, scheduler
        self._retires = retire
        self.shards = shards
        self._shards = [Shard(number, 1) for number in range(shards)]
        self._coordinator = Coordinator(1, shards)
        names = {f"provider-{number}": server for number, server in enumerate(providers)}
        for name in names:
            self._coordinator.provider_joined(name, name)
        for opening in self._coordinator.assign():
            for shard in opening.shards:
                self._coordinator.opened(shard, opening.place.name)
        places = self._coordinator.table().places
        self._serving = [names[place.name] for _, place in sorted(places.items()) if place is not None]
        self._index = PrefixIndex()
        self._records: dict[ModelId, ModelRecord] = {}
        self._graphs: dict[ModelId, ArchitectureGraph] = {}
        self._sizes: dict[ModelId, dict[int, int]] = {}
        self._bytes = self._full = 0

    # Messages

    def _send(self, messages: Sequence[Message], seconds: float) -> Steps:
        """Send messages at once, each to its shard; return the answers `latency_s` later each way, with the last."""
        yield self._clock.now + self._costs.latency_s
        numbers = []
        for message in messages:
            assert message.addressee is not None
            number = shard_of(message.addressee, len(self._shards))
            self.messages[type(message).__name__] += 1
            self.by_shard[number] += 1
            numbers.append(number)
        yield max(self._serving[number].take(self._clock.now, seconds) for number in numbers)
        decided = [self._decide(number, message) for number, message in zip(numbers, messages, strict=True)]
        # The journal's flush keeps the answer, not the provider.
        flushes = any(flush for _, flush in decided)
        yield self._clock.now + self._costs.latency_s + (self._costs.flush_s if flushes else 0.0)
        return [reply for reply, _ in decided]

    def _run(self, script: Script[Any], carry_out: Callable[[Step], Steps] | None = None) -> Steps:
        """Run a script of the protocol."""
        carry_out = carry_out or self._carry_out
        answer: Any = None
        while True:
            try:
                step = script.send(answer)
            except StopIteration as stop:
                return stop.value
            answer = yield from carry_out(step)

    def _carry_out(self, step: Step) -> Steps:
        match step:
            case Together((Put() as put,)):
                return (yield from self._send([put], self._costs.put_message_s))
            case Together(messages):
                return (yield from self._send(messages, self._costs.message_s))
            case OnOwnShard(messages):
                yield from self._send(messages, self._costs.message_s)
            case End(attempt, settled):
                yield from self._ask_coordinator()
                self._coordinator.end(attempt, settled=settled)
            case EndInBackground(attempt, drops):
                self._clock.start(self._end_in_background(attempt, drops))
            case IsServed():
                return True
        return None

    def _decide(self, number: int, message: Message) -> tuple[say.Reply, bool]:
        shard = self._shards[number]
        decision = shard.decide(message)
        for record in decision.records:
            effects = shard.apply(record)
            for (owner, _), numbers in effects.freed.items():
                sizes = self._sizes[owner]
                self._bytes -= sum(sizes.pop(tensor) for tensor in numbers)
                if not sizes:
                    del self._sizes[owner]
            for model_id in effects.unpublished:
                self._full -= self._graphs.pop(model_id).nbytes
                del self._records[model_id]
                self._index.remove(model_id)
            for retirement in effects.retire:
                self._clock.start(self._run(scripts.retire(retirement)))
        return decision.reply, decision.flush and bool(decision.records)

    def _ask_coordinator(self) -> Steps:
        self.messages["coordinator"] += 1
        yield self._clock.now + self._costs.latency_s
        yield self._scheduler.take(self._clock.now, self._costs.coordinator_s)
        yield self._clock.now + self._costs.latency_s

    def ask_all(self, asker: Server, seconds: float, times: int = 1) -> Steps:
        """Ask every provider something that takes each so long, and wait for the last answer."""
        self.messages["match"] += len(self._providers)
        yield asker.take(self._clock.now, self._costs.ask_provider_s * len(self._providers))
        yield self._clock.now + self._costs.latency_s
        yield max(provider.take(self._clock.now, seconds * times) for provider in self._providers)
        yield self._clock.now + self._costs.latency_s

    # What an evaluation asks for

    def inherit(self, request: Request, graph: ArchitectureGraph, key: str, trainer: Server, transfers: bool) -> Steps:
        """Begin an attempt, find the best match, reserve its prefix at the owners, and read."""
        got = Inherited(graph)
        tried: set[ModelId] = set()

        def carry_out(step: Step) -> Steps:
            match step:
                case Begin():
                    yield from self._ask_coordinator()
                    return self._coordinator.begin(TaskHolder(key, 1, "trainer"), request.model_id, live=True)
                case Find():
                    got.ancestor, got.prefix, got.entries = None, Prefix(()), {}
                    if not transfers or len(tried) == TRIES:
                        return {}
                    yield from self.ask_all(trainer, self._costs.query_s)
                    match = self._index.best(SCOPE, graph.ids, exclude=frozenset(tried))
                    return {} if match is None else self._inherit_from(match.model_id, got)
                case Reserve(model, attempt, wanted):
                    refers = [Refer(owner, model, attempt, frozenset(numbers)) for owner, numbers in wanted.items()]
                    replies = yield from self._send(refers, self._costs.message_s)
                    if any(isinstance(reply, say.Refused) for reply in replies):
                        self.gone += 1
                        assert got.ancestor is not None
                        tried.add(got.ancestor)
                        return False
                    read = sum(graph.tensors[number].spec.nbytes for number in got.entries)
                    yield self._clock.now + read / self._costs.bytes_per_s
                    return True
            return (yield from self._carry_out(step))

        got.attempt = yield from self._run(scripts.reserve(request.model_id, again=True), carry_out)
        return got

    def _inherit_from(self, ancestor: ModelId, got: Inherited) -> dict[ModelId, set[int]]:
        record, other = self._records[ancestor], self._graphs[ancestor]
        got.prefix = longest_common_prefix(got.graph, other)
        got.entries = {mine: record.owner_map.entries[theirs] for mine, theirs in got.prefix.tensors(got.graph, other)}
        got.ancestor = ancestor if got.entries else None
        wanted: dict[ModelId, set[int]] = {}
        for entry in got.entries.values():
            wanted.setdefault(entry.owner, set()).add(entry.number)
        return wanted

    def put(
        self, request: Request, got: Inherited, kept: frozenset[int], quality: float, steps: int, label: str
    ) -> Steps:
        """Store what changed with its home; what is not used of what was reserved is given back by and by."""
        assert got.attempt is not None
        name, graph = request.model_id, got.graph
        own = {key: tensor.spec for key, tensor in enumerate(graph.tensors) if key not in kept}
        entries = tuple(
            got.entries[number]
            if number in kept
            else OwnerEntry(name, number, DIGEST, steps + (got.entries[number].steps if number in got.entries else 0))
            for number in range(len(graph.tensors))
        )
        yield from self._ask_coordinator()
        created = self._coordinator.tick()
        # The graph's text is kept beside the record: the state machines never look at it.
        record = ModelRecord(
            name,
            got.attempt,
            SCOPE,
            None,
            OwnerMap(entries),
            own,
            created,
            quality=quality,
            step=steps,
            parent=request.parent,
            ancestor=got.ancestor,
        )
        nbytes = record.own_bytes
        yield self._clock.now + nbytes / self._costs.bytes_per_s
        reserved: dict[ModelId, set[int]] = {}
        for entry in got.entries.values():
            reserved.setdefault(entry.owner, set()).add(entry.number)
        used = record.owner_map.owners
        left = {owner: frozenset(numbers) - used.get(owner, frozenset()) for owner, numbers in reserved.items()}
        unused = {owner: numbers for owner, numbers in left.items() if numbers}
        yield from self._run(scripts.put(Put(record, {label: created}), reserved, unused))
        self._records[name], self._graphs[name] = record, graph
        self._index.insert(SCOPE, name, graph.ids, quality, created)
        if own:
            self._sizes[name] = {number: spec.nbytes for number, spec in own.items()}
        self._bytes += nbytes
        self._full += graph.nbytes
        return nbytes

    def _end_in_background(self, attempt: Attempt, drops: tuple[Drop, ...]) -> Steps:
        if drops:
            yield from self._send(drops, self._costs.message_s)
        yield from self._ask_coordinator()
        self._coordinator.end(attempt)

    def change(self, change: LabelChange) -> Steps:
        """Ask the coordinator for a tick, and home to change the label."""
        if change.action == "release" and not self._retires:
            return
        yield from self._ask_coordinator()
        kind = Hold if change.action == "hold" else Release
        message = kind(change.model_id, change.label, self._coordinator.tick())
        yield from self._send([message], self._costs.message_s)

    def stored(self) -> StoredSizes:
        return StoredSizes(self._bytes, self._full, len(self._records))
