"""A search without a cluster: real strategy, run state, planner and executor's order of doing things, simulated time.

The search's process does one thing after another, as :class:`daskevo_workflows.execution.executor.Executor` does: it
gives a trainer that has become free what is ready, fetches the report, records it, changes labels, has the next
candidates ready. What that takes is why many trainers wait for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy
from daskevo.graph import ArchitectureGraph
from daskevo.runs import LabelChange, RunState, identity, plan, share
from daskevo.search import BEST_MATCH, Report, Request, Stop, Strategy, View
from daskevo.space import ModelSpace
from daskevo.types import Objective
from daskevo_workflows.evaluation.transfer import FREEZE
from daskevo_workflows.execution.request_fields import check_numbers, refuse_fields
from daskevo_workflows.simulate.clock import Clock
from daskevo_workflows.simulate.cluster import TRAINERS_PER_PROVIDER, Cluster, Layout
from daskevo_workflows.simulate.costs import MeasuredCosts
from daskevo_workflows.simulate.evo import Evo
from daskevo_workflows.simulate.files import Files
from daskevo_workflows.simulate.graphs import Graphs, frozen_layers, landscape, settings_of
from daskevo_workflows.simulate.outcome import SimulatedOutcome, SimulatedSample, SimulatedSpan
from daskevo_workflows.simulate.storing import Inherited, SimulatedRepository, Steps

LABEL = "simulated"
OBJECTIVE = Objective("max", "quality")
STORAGE_S = 3.0
"""How often a search asks what the repository holds."""
REFUSED = {
    "training": "a simulated evaluation takes what the measured ones took, with their batches: leave it out",
    "until_step": "a simulated evaluation takes what the measured ones took, which trained to their end: leave it out, "
    "and simulate trainings in parts with daskevo.tuning.simulate",
    "ancestor": "a simulated evaluation inherits from the best match or from none: leave it out, or None",
}
"""Fields of a request that have no simulation, and what to do instead."""

Keep = Literal["evo", "files"]
Quality = Callable[[Request, ArchitectureGraph, int], float]


def search(
    strategy: Strategy,
    space: ModelSpace,
    graphs: Graphs,
    *,
    trainers: int,
    evaluations: int,
    costs: MeasuredCosts,
    seed: int = 0,
    providers: int | None = None,
    shards: int = 64,
    freeze: object = FREEZE,
    transfer: bool = True,
    retire: bool = True,
    keep: Keep = "evo",
    quality: Quality = landscape,
    shared_cores: int | None = None,
) -> SimulatedOutcome:
    """Simulate a search; the same arguments give the same outcome.

    Parameters
    ----------
    strategy:
        A real one; is started here.
    space, graphs:
        What it draws from, and the graphs of candidates (:mod:`daskevo_workflows.simulate.graphs`).
    trainers, evaluations:
        How many trainers, all there from the beginning; and finished evaluations wanted.
    costs:
        Measured (:mod:`daskevo_workflows.simulate.measuring`).
    providers:
        One for each four trainers when None.
    shards:
        Of the repository.
    freeze:
        ``"steps:K"``, ``"prefix"``, ``"none"`` or a share, as `Transfer` has it.
    transfer, retire:
        Whether candidates inherit; whether models that leave the population are let go.
    keep:
        ``evo``: a repository of ours; ``files``: whole models in files, and one server for queries.
    quality:
        Gives a model's quality, 0 to 1, from request, graph and seed.
    shared_cores:
        See :class:`daskevo_workflows.simulate.cluster.Layout`.

    Raises
    ------
    InvalidInput
        If there is no trainer, or the strategy continues trainings, as studies do, or asks for what has no simulation:
        `training`, `until_step`, an `ancestor` by name.

    Examples
    --------
    See docs/simulation.md.
    """
    if trainers < 1 or evaluations < 1 or seed < 0:
        raise InvalidInput(f"trainers={trainers}, evaluations={evaluations}, seed={seed}: use 1 or more, a seed from 0")
    count = max(1, -(-trainers // TRAINERS_PER_PROVIDER)) if providers is None else providers
    if count < 1 or (shards < count and keep == "evo") or (shared_cores is not None and shared_cores < 1):
        raise InvalidInput(f"providers={count}, shards={shards}, shared_cores={shared_cores}: a provider needs a shard")
    layout = Layout(trainers, count, shared_cores)
    return _SimulatedSearch(
        strategy, space, graphs, layout, evaluations, costs, seed, shards, freeze, transfer, retire, keep, quality
    ).go()


class _SimulatedSearch:
    def __init__(
        self,
        strategy: Strategy,
        space: ModelSpace,
        graphs: Graphs,
        layout: Layout,
        evaluations: int,
        costs: MeasuredCosts,
        seed: int,
        shards: int,
        freeze: object,
        transfer: bool,
        retire: bool,
        keep: Keep,
        quality: Quality,
    ) -> None:
        self.strategy, self.graph_of, self.costs, self.seed = strategy, graphs, costs, seed
        self.freeze, self.transfer, self.quality = FreezePolicy.parse(freeze), transfer, quality
        self.layout = layout
        self.clock = Clock()
        self.cluster = Cluster(layout, costs)
        self.evo: Evo | None = None
        self.repository: SimulatedRepository
        if keep == "evo":
            self.repository = self.evo = Evo(
                self.clock, costs, self.cluster.providers, self.cluster.scheduler, shards, retire
            )
        else:
            self.repository = Files(self.clock, costs, self.cluster.files, retire)
        self.run_state = RunState(OBJECTIVE, evaluations, LABEL)
        self.outcome = SimulatedOutcome(layout.trainers, layout.providers)
        self.free = deque(range(layout.trainers))
        self.prepared: set[int] = set()
        self.graphs: dict[int, ArchitectureGraph] = {}
        self.queue: deque[Request] = deque()
        self.ready: deque[Request] = deque()
        self.planned: set[int] = set()
        self.under_way: dict[int, Request] = {}
        self.choosing: set[int] = set()
        self.waiting: dict[int, int] = {}
        self.label_changes: deque[tuple[LabelChange, set[int]]] = deque()
        self.inbox: deque[tuple[int, Report]] = deque()
        self.exhausted = False
        self.idle = False
        self.sampled = 0.0
        self.control: Steps | None = None
        strategy.start(space, [OBJECTIVE], seed)

    def go(self) -> SimulatedOutcome:
        self.control = self._control()
        self.clock.start(self.control)
        self.clock.go(self.control)
        outcome, runtime_s = self.outcome, self.clock.now
        outcome.runtime_s = runtime_s
        outcome.requests, outcome.reports = [*self.run_state.requests.values()], [*self.run_state.reports.values()]
        outcome.messages = dict(self.repository.messages)
        outcome.loads = self.cluster.loads(runtime_s, max(1, self.run_state.counts["finished"]))
        if self.evo is not None and self.evo.by_shard:
            counts = self.evo.by_shard
            outcome.hottest_shard = max(counts.values()) / (sum(counts.values()) / self.evo.shards)
            outcome.gone = self.evo.gone
        self._sample()
        return outcome

    # The search's process

    def _work(self, seconds: float) -> float:
        return self.cluster.controller.take(self.clock.now, seconds)

    def _control(self) -> Steps:
        yield from self._fill()
        while self.run_state.stop_reason() is None:
            if not self.inbox:
                if not self.under_way:
                    return
                self.idle = True
                yield None
                continue
            trainer, report = self.inbox.popleft()
            self.free.append(trainer)
            # What is ready goes to the trainer before anything else is done for the evaluation that has ended.
            yield from self._submit(ended=1)
            yield self._work(self.costs.fetch_s)
            yield self.clock.now + 2 * self.costs.latency_s
            del self.under_way[report.number]
            yield from self._report(report)
            yield from self._fill()

    def _fill(self) -> Steps:
        yield from self._prepare(len(self.free))
        yield from self._submit()
        yield from self._prepare(max(1, self.layout.trainers // 4))
        ahead = [request.number for request in self.ready if request.number not in self.planned]
        if ahead:
            self.planned.update(ahead)
            yield self._work(self.costs.commit_s)

    def _room(self, ended: int = 0) -> int:
        return self.run_state.evaluations - self.run_state.counts["finished"] - len(self.under_way) - ended

    def _prepare(self, wanted: int) -> Steps:
        while self.run_state.stop_reason() is None:
            room = min(wanted, self._room()) - len(self.ready)
            if room < 1 or not (self.queue or (yield from self._ask(room))):
                return
            asked = [self.queue.popleft() for _ in range(min(room, len(self.queue)))]
            for request in asked:
                if request.number not in self.graphs:
                    yield self._work(self.costs.graph_s)
                    graph = self.graph_of(request.candidate)
                    self.graphs[request.number] = graph
                    self.run_state.identify(request.number, identity(request, [*graph.ids, settings_of(graph)]))
            yield from self._share(asked)

    def _ask(self, wanted: int) -> Steps:
        wanted = min(wanted, self.run_state.wanted)
        if wanted < 1 or self.exhausted:
            return False
        run_state = self.run_state
        view = View(wanted, run_state.next_number, LABEL, run_state.asked, run_state.pending)
        answer = self.strategy.ask(view)
        if isinstance(answer, Stop):
            self.exhausted = True
            return False
        if any(request.continues is not None or request.sequence is not None for request in answer):
            raise InvalidInput(
                f"strategy {self.strategy.name!r} continues trainings, or has hyper-parameters over time: simulate it "
                "with daskevo.tuning.simulate"
            )
        check_numbers(self.strategy, view, answer[:wanted])
        for request in answer[:wanted]:
            refuse_fields(self.strategy, request, REFUSED)
        requests = [
            replace(request, transfer=request.transfer and self.transfer and request.ancestor == BEST_MATCH)
            for request in answer[:wanted]
        ]
        if requests:
            yield self._work(self.costs.strategy_s * len(requests) + self.costs.commit_s)
            run_state.ask(requests)
            self.queue.extend(requests)
        return bool(requests)

    def _share(self, requests: Sequence[Request]) -> Steps:
        names = self.run_state.identities
        under_way = {names[request.number]: request.number for request in [*self.under_way.values(), *self.ready]}
        sharing = share(requests, names, self.run_state.done, under_way)
        self.waiting.update(sharing.waiting)
        for number, original in sharing.known.items():
            yield from self._report(self.run_state.duplicate(number, original))
        self.ready.extend(sharing.fresh)
        if any(request.priority for request in self.ready):
            self.ready = deque(sorted(self.ready, key=lambda request: (-request.priority, request.number)))

    def _submit(self, ended: int = 0) -> Steps:
        count = max(0, min(len(self.free), self._room(ended), len(self.ready)))
        batch = [self.ready.popleft() for _ in range(count)]
        new = [request for request in batch if request.number not in self.planned]
        self.planned.difference_update(request.number for request in batch)
        matched = any(unit.kind == "match" for unit in plan(new)) if self.evo is not None else False
        if new:
            yield self._work(self.costs.commit_s)
        match_s = self._match(len(new)) if matched else 0.0
        for request in batch:
            trainer = self.free.popleft()
            self.under_way[request.number] = request
            if request.transfer:
                self.choosing.add(request.number)
            yield self._work(self.costs.submit_s)
            begin_s = match_s if matched and request in new else 0.0
            self.clock.start(self._evaluation(request, trainer, max(begin_s, self.clock.now)))

    def _match(self, questions: int) -> float:
        """Submit the query of a batch, a task for each provider and one that compares; return when it is answered."""
        costs, providers = self.costs, self.cluster.providers
        answer_s = costs.query_s + costs.question_s * (questions - 1)
        sent = self.cluster.scheduler.take(self.clock.now, costs.task_s * (len(providers) + 1)) + costs.latency_s
        return max(provider.take(sent, answer_s) for provider in providers) + 3 * costs.latency_s

    def _report(self, report: Report) -> Steps:
        changes = self.run_state.report(report)
        self.strategy.tell(self.run_state.requests[report.number], report)
        changes += self.run_state.left(self.strategy.leave())
        yield self._work(self.costs.commit_s)
        self.label_changes.extend((change, set(self.choosing)) for change in changes)
        yield from self._change_labels()
        self.graphs.pop(report.number, None)
        for waiting in [waiting for waiting, original in self.waiting.items() if original == report.number]:
            del self.waiting[waiting]
            self.queue.appendleft(self.run_state.requests[waiting])
        if self.clock.now - self.sampled >= STORAGE_S:
            self.sampled = self.clock.now
            if self.evo is not None:
                yield from self.evo.ask_all(self.cluster.controller, self.costs.message_s)
            self._sample()

    def _change_labels(self) -> Steps:
        done = 0
        while self.label_changes:
            change, choosing = self.label_changes[0]
            # What is taken waits for those that may still choose it; what is given doesn't.
            if change.action == "release" and choosing & self.choosing:
                break
            self.label_changes.popleft()
            yield self._work(self.costs.label_s)
            yield from self.repository.change(change)
            done += 1
        if done:
            yield self._work(self.costs.commit_s)

    def _sample(self) -> None:
        held = self.repository.stored()
        self.outcome.storage.append(SimulatedSample(self.clock.now, held.nbytes, held.full_bytes, held.models))

    # On a trainer

    def _evaluation(self, request: Request, trainer: int, match_s: float) -> Steps:
        clock, costs, graph = self.clock, self.costs, self.graphs[request.number]
        server, scheduler = self.cluster.trainers[trainer], self.cluster.scheduler
        yield scheduler.take(clock.now, costs.task_s / 2)
        yield max(clock.now, match_s) + costs.latency_s
        begun = clock.now
        if trainer not in self.prepared:
            self.prepared.add(trainer)
            yield clock.now + costs.prepare_s
        draws = np.random.default_rng([self.seed, request.number]).standard_normal(4)
        parameters = graph.parameters
        seconds: dict[str, float] = {}

        # The candidate is built while its ancestor is looked for.
        since = clock.now
        seconds["build"] = costs.build.seconds(parameters, 0.0, draws[0])
        built = server.take(since, seconds["build"])
        got: Inherited = yield from self.repository.inherit(
            request, graph, f"evaluate-{request.number}", server, request.transfer
        )
        self.choosing.discard(request.number)
        seconds["query"] = max(0.0, clock.now - built)
        yield max(clock.now, built)
        yield server.take(clock.now, costs.inherit_s)
        seconds["inherit"] = costs.inherit_s

        had = {number: entry.steps for number, entry in got.entries.items()}
        frozen, frozen_share = frozen_layers(graph, got.prefix, self.freeze, had)
        kept = frozenset(number for layer in frozen for number in graph.tensor_numbers(layer))
        seconds["compile"] = costs.compile_s
        phases = (costs.first_step, costs.training, costs.scoring)
        for name, phase, draw in zip(("first_step", "training", "scoring"), phases, draws[1:], strict=True):
            seconds[name] = phase.seconds(parameters, frozen_share, float(draw))
        yield clock.now + sum(seconds[name] for name in ("compile", "first_step", "training", "scoring"))

        value = self.quality(request, graph, self.seed)
        since = clock.now
        yield server.take(clock.now, costs.put_s)
        own = yield from self.repository.put(request, got, kept, value, costs.steps, self.run_state.population_label)
        seconds["put"] = clock.now - since
        ended = clock.now
        self.outcome.spans.append(SimulatedSpan(trainer, request.number, begun, ended))
        report = Report(
            request.number,
            request.model_id,
            "finished",
            step=costs.steps,
            quality=value,
            metrics={OBJECTIVE.metric: value, "parameters": float(parameters)},
            seconds=seconds,
            ancestor=got.ancestor,
            prefix=len(got.prefix.vertices),
            vertices=len(graph.vertices),
            frozen_share=frozen_share,
            parameters=parameters,
            own_bytes=own,
            full_bytes=graph.nbytes,
            worker=f"trainer-{trainer}",
            started=begun,
            ended=ended,
        )
        yield clock.now + costs.latency_s
        yield scheduler.take(clock.now, costs.task_s / 2)
        self.inbox.append((trainer, report))
        if self.idle:
            self.idle = False
            assert self.control is not None
            clock.start(self.control)
