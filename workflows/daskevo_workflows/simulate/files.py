"""The rival of paper 000: whole models in files, and one server for queries."""

from __future__ import annotations

from collections import Counter

from daskevo.graph import ArchitectureGraph, longest_common_prefix
from daskevo.index import PrefixIndex
from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.runs import LabelChange
from daskevo.search import Request
from daskevo.types import ModelId
from daskevo_workflows.simulate.clock import Clock, Server
from daskevo_workflows.simulate.costs import MeasuredCosts
from daskevo_workflows.simulate.storing import DIGEST, SCOPE, Inherited, Steps, StoredSizes


class Files:
    """Whole models in files of a parallel file system, their architectures in one server that looks at each for a
    query: the paper's HDF5+PFS with Redis-Queries, by what its parts cost here.

    Parameters
    ----------
    server:
        That answers queries, one after the other.
    """

    def __init__(self, clock: Clock, costs: MeasuredCosts, server: Server, retire: bool) -> None:
        self.messages: Counter[str] = Counter()
        self._clock, self._costs, self._server, self._retires = clock, costs, server, retire
        self._index = PrefixIndex()
        self._graphs: dict[ModelId, ArchitectureGraph] = {}
        self._maps: dict[ModelId, OwnerMap] = {}
        self._labels: dict[ModelId, set[str]] = {}
        self._coordinator = Coordinator(1, 1)
        self._bytes = 0

    def _ask(self, seconds: float) -> Steps:
        self.messages["server"] += 1
        yield self._clock.now + self._costs.latency_s
        yield self._server.take(self._clock.now, seconds)
        yield self._clock.now + self._costs.latency_s

    def inherit(self, request: Request, graph: ArchitectureGraph, key: str, trainer: Server, transfers: bool) -> Steps:
        """Ask the server, then load the whole ancestor."""
        got = Inherited(graph)
        if not transfers:
            return got
        yield from self._ask(self._costs.scan_s * len(self._graphs))
        match = self._index.best(SCOPE, graph.ids)
        if match is None:
            return got
        other, entries = self._graphs[match.model_id], self._maps[match.model_id].entries
        got.prefix = longest_common_prefix(graph, other)
        got.entries = {mine: entries[theirs] for mine, theirs in got.prefix.tensors(graph, other)}
        got.ancestor = match.model_id if got.entries else None
        yield self._clock.now + other.nbytes / self._costs.load_bytes_per_s
        return got

    def put(
        self, request: Request, got: Inherited, kept: frozenset[int], quality: float, steps: int, label: str
    ) -> Steps:
        """Write the whole model, and tell the server twice: that it is coming, and that it is there."""
        graph, name = got.graph, request.model_id
        yield from self._ask(self._costs.message_s)
        yield self._clock.now + graph.nbytes / self._costs.copy_bytes_per_s
        yield from self._ask(self._costs.message_s)
        had = {number: entry.steps for number, entry in got.entries.items()}
        self._maps[name] = OwnerMap.of(
            OwnerEntry(name, number, DIGEST, had.get(number, 0) + (0 if number in kept else steps))
            for number in range(len(graph.tensors))
        )
        self._graphs[name], self._labels[name] = graph, {label}
        self._index.insert(SCOPE, name, graph.ids, quality, self._coordinator.tick())
        self._bytes += graph.nbytes
        return graph.nbytes

    def change(self, change: LabelChange) -> Steps:
        """Remove what nobody keeps any more."""
        name, labels = change.model_id, self._labels.get(change.model_id)
        if labels is None or not self._retires:
            return
        if change.action == "hold":
            labels.add(change.label)
            return
        labels.discard(change.label)
        if not labels:
            yield from self._ask(self._costs.message_s)
            self._bytes -= self._graphs.pop(name).nbytes
            self._index.remove(name)
            del self._maps[name], self._labels[name]

    def stored(self) -> StoredSizes:
        return StoredSizes(self._bytes, self._bytes, len(self._graphs))
