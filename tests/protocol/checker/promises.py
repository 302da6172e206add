"""The protocol's promises, recounted from scratch after every step and at rest: nothing here trusts what it checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol.audit import differences
from daskevo.protocol.references import mask_of, numbers_in
from daskevo.protocol.snapshot import FileView
from daskevo.types import Attempt, ModelId, Tick

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daskevo.protocol.state import Model
    from tests.protocol.checker.servers import Server
    from tests.protocol.checker.under_way import Actor
    from tests.protocol.checker.world import World

BEGINNING = Tick(0, 0)


class BrokenPromise(AssertionError):
    """Something was lost, leaked, came back, or failed without cause."""


class Everything:
    """All attempts: at rest each is over."""

    def __contains__(self, attempt: object) -> bool:
        return True


class Promises:
    """What was answered, and so must hold from then on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._reserved: dict[Attempt, tuple[ModelId | None, Mapping[ModelId, frozenset[int]]]] = {}
        self._verdicts: dict[tuple[ModelId, Attempt], str] = {}
        self._retiring: set[ModelId] = set()
        self._issued: dict[tuple[ModelId | None, str], dict[Tick, bool]] = {}
        self._answered: dict[tuple[ModelId | None, str], Tick] = {}
        self._ended: dict[tuple[int, str], Tick] = {}

    # What the world reports.

    def reserved(self, model: ModelId | None, attempt: Attempt, wanted: Mapping[ModelId, frozenset[int]]) -> None:
        """All owners have answered that these tensors stay for the attempt."""
        self._reserved[attempt] = model, wanted

    def given_back(self, attempt: Attempt) -> None:
        """The holder doesn't want them any more."""
        self._reserved.pop(attempt, None)

    def issued(self, model: ModelId | None, label: str, tick: Tick, held: bool) -> None:
        """Somebody sends a hold or release (model None: of all models)."""
        self._issued.setdefault((model, label), {})[tick] = held

    def answered(self, shard: int, message: ask.Message, reply: say.Reply) -> None:
        """A shard gave its word."""
        if isinstance(reply, say.Verdict):
            assert isinstance(message, (ask.Abort, ask.Publish, ask.Put))
            model = message.record.model_id if isinstance(message, ask.Put) else message.model
            self._verdict(model, reply)
            if isinstance(message, (ask.Publish, ask.Put)):
                self._labelled_at_publish(model, message.labels)
        elif isinstance(reply, say.Labelled):
            assert isinstance(message, (ask.Hold, ask.Release, ask.Retire))
            if reply.state != "published":
                self._retiring.add(message.model)
            if not isinstance(message, ask.Retire):
                self._answer(message.model, message.label, message.tick)
        elif isinstance(reply, say.LabelGone):
            assert isinstance(message, ask.ReleaseLabel)
            self._retiring.update(reply.retiring)
            for model in reply.released:
                self._answer(model, message.label, message.tick)
            key = (shard, message.label)
            self._ended[key] = max(message.tick, self._ended.get(key, BEGINNING))

    def opened(self, server: Server) -> None:
        """A shard was opened: its head must recreate its state exactly."""
        again = server.rules.shard(server.number, server.shard.state.generation, server.shard.head())
        if again.state != server.shard.state:
            raise BrokenPromise(f"head of shard {server.number} recreates another state")

    def finished(self, actor: Actor) -> None:
        """A script has ended."""
        if actor.outcome == "failed" and not actor.disturbed:
            raise BrokenPromise(f"{actor.name} failed without cause")

    # What must hold.

    def check(self) -> None:
        """Check everything that must hold at any moment."""
        for server in self._serving():
            self._recount(server)
            for model_id, model in server.shard.state.models.items():
                self._check_labels(server, model_id, model)
                if model.state == "published":
                    self._check_readable(model_id, model)
        for (model_id, attempt), verdict in self._verdicts.items():
            self._check_verdict(model_id, attempt, verdict)
        for model_id in self._retiring:
            found = self._model(model_id)
            if found is not None and found.state == "published":
                raise BrokenPromise(f"{model_id} came back after it was retired")
        self._check_reserved()

    def check_at_rest(self) -> None:
        """Nothing runs, all attempts are over, the audit has been: nothing may be left that no published map uses."""
        snapshots = []
        for server in self._serving():
            files = tuple(FileView(*segment) for segment in sorted(server.disk.files))
            snapshots.append(server.shard.snapshot(files))
            if server.shard.state.staged:
                raise BrokenPromise(f"still staged: {server.shard.state.staged}")
            for owner, (model, attempt), mask in server.shard.state.references:
                home = None if model is None else self._model(model)
                if home is None or home.state != "published" or home.record.attempt != attempt:
                    raise BrokenPromise(f"bits left at {owner}: {model}, {attempt}")
                if numbers_in(mask) != home.record.owner_map.owners.get(owner, frozenset()):
                    raise BrokenPromise(f"bits of {model} at {owner} are not what its map uses")
            if server.shard.retiring():
                raise BrokenPromise("a retirement never ended")
            if server.disk.files != set(server.shard.state.references.alive):
                raise BrokenPromise(f"files left: {server.disk.files - set(server.shard.state.references.alive)}")
        found = differences(snapshots, Everything())
        if found:
            raise BrokenPromise(f"verify finds {found}")

    def check_empty(self) -> None:
        """All labels are released: nothing may be left at all."""
        self.check_at_rest()
        for server in self._serving():
            references = server.shard.state.references
            if references.bits or references.alive or server.disk.files:
                raise BrokenPromise(f"left after all labels were released: {references}, {server.disk.files}")

    def labels(self) -> set[str]:
        """All labels that were ever used."""
        return {label for _, label in self._issued}

    # Inside.

    def _verdict(self, model: ModelId, verdict: say.Verdict) -> None:
        key = (model, verdict.attempt)
        before = self._verdicts.get(key, "")
        if (before == "aborted") != (verdict.state == "aborted") and before:
            raise BrokenPromise(f"home first called {key} {before}, then {verdict.state}")
        self._verdicts[key] = verdict.state
        if verdict.state in ("retiring", "retired"):
            self._retiring.add(model)

    def _labelled_at_publish(self, model: ModelId, labels: Mapping[str, Tick]) -> None:
        for label, tick in labels.items():
            self._answer(model, label, tick)

    def _answer(self, model: ModelId, label: str, tick: Tick) -> None:
        key = (model, label)
        self._answered[key] = max(tick, self._answered.get(key, BEGINNING))

    def _check_reserved(self) -> None:
        for attempt, (child, wanted) in list(self._reserved.items()):
            published = None if child is None else self._model(child)
            if self._world.is_over(attempt) or (published is not None and published.record.attempt == attempt):
                del self._reserved[attempt]
                continue
            for owner, numbers in wanted.items():
                if self._up(owner) and not self._world.there(owner, numbers):
                    raise BrokenPromise(f"reserved tensors of {owner} went while {child}, {attempt}, is live")

    def _check_verdict(self, model_id: ModelId, attempt: Attempt, verdict: str) -> None:
        if not self._up(model_id) or verdict == "lost":
            return
        model = self._model(model_id)
        is_it = model is not None and model.record.attempt == attempt
        if verdict == "aborted" and is_it:
            raise BrokenPromise(f"{model_id}, {attempt}, was published after home called it aborted")
        if verdict != "aborted" and not is_it:
            raise BrokenPromise(f"{model_id}, {attempt}, was {verdict}, and is no more")

    def _check_readable(self, model_id: ModelId, model: Model) -> None:
        claim = (model_id, model.record.attempt)
        for owner, numbers in model.record.owner_map.owners.items():
            if not self._up(owner):
                continue
            if not self._world.there(owner, numbers):
                raise BrokenPromise(f"{model_id} is published, and tensors {sorted(numbers)} of {owner} are gone")
            server = self._world.servers[self._world.home(owner)]
            assert server is not None
            if mask_of(numbers) & ~server.shard.state.references.of(owner, claim):
                raise BrokenPromise(f"{model_id} is published, and its bits at {owner} are missing")

    def _check_labels(self, server: Server, model_id: ModelId, model: Model) -> None:
        if (model.state == "published") != bool(model.held):
            raise BrokenPromise(f"{model_id} is {model.state} with labels {model.held}")
        for label, tick in model.held.items():
            if tick < self._ended.get((server.number, label), BEGINNING):
                raise BrokenPromise(f"{model_id} holds {label}, which was released from all models since")
        for (of, label), tick in self._answered.items():
            if of != model_id:
                continue
            ended = server.shard.state.ended_labels.get(label, BEGINNING)
            decided = max(model.held.get(label, BEGINNING), model.released.get(label, BEGINNING), ended)
            # Of older generations the generation itself refuses what is late.
            if model.state == "published" and decided < tick and tick.generation >= server.shard.state.generation:
                raise BrokenPromise(f"{model_id} forgot what was answered about {label} at {tick}")
            held_at = {tick for tick, held in self._issued.get((model_id, label), {}).items() if held}
            released_at = {
                tick
                for key in ((model_id, label), (None, label))
                for tick, held in self._issued.get(key, {}).items()
                if not held
            }
            if label in model.held and model.held[label] not in held_at:
                raise BrokenPromise(f"{model_id} holds {label} by nobody's word")
            if label not in model.held and tick in held_at and not any(later > tick for later in released_at):
                raise BrokenPromise(f"{model_id} lost {label}, which nobody released after {tick}")
            if label in model.held and any(
                later > model.held[label] for later in released_at & self._answers(of, label)
            ):
                raise BrokenPromise(f"{model_id} still holds {label} after it was released")

    def _answers(self, model: ModelId | None, label: str) -> set[Tick]:
        tick = self._answered.get((model, label))
        return set() if tick is None else {tick}

    def _recount(self, server: Server) -> None:
        references = server.shard.state.references
        covered: dict[tuple[ModelId, Attempt], int] = {}
        for owner, (model, attempt), mask in references:
            segment = (owner, attempt) if model == owner else (owner, references.published.get(owner, BEGINNING))
            covered[segment] = covered.get(segment, 0) | mask
        if covered != references.alive:
            raise BrokenPromise(f"shard {server.number} keeps {references.alive}, bits cover {covered}")
        if not set(references.alive) <= server.disk.files:
            raise BrokenPromise(f"files are gone: {set(references.alive) - server.disk.files}")

    def _serving(self) -> list[Server]:
        return [server for server in self._world.servers if server is not None]

    def _up(self, model: ModelId) -> bool:
        return self._world.servers[self._world.home(model)] is not None

    def _model(self, model: ModelId) -> Model | None:
        server = self._world.servers[self._world.home(model)]
        return None if server is None else server.shard.state.find(model)
