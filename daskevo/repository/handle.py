"""The handle on a repository: the facade over the cluster and over Keras models.

Everything that waits has a time limit. With an asynchronous Dask client calls return awaitables, in Dask's own manner;
inside a task the same handle works, without needing a free slot of the worker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from daskevo.catalogue import Match
from daskevo.cluster.connection import Connection, connect, is_in_task
from daskevo.cluster.matching import Question
from daskevo.cluster.offline import OfflineConnection
from daskevo.cluster.queries import query_futures
from daskevo.cluster.reading import read_model
from daskevo.cluster.session import Session
from daskevo.cluster.settings import Settings
from daskevo.cluster.verifying import Verification, verify
from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.ownership.lineage import Contribution, contributors
from daskevo.ownership.model_record import ModelRecord
from daskevo.repository.inheritance import Inheritance
from daskevo.types import ModelId, Objective, Tick, check_label, check_name

Array = np.ndarray[Any, Any]


class Matches(list[Match | None]):
    """Best matches, one per graph.

    Attributes
    ----------
    partial:
        Providers and shards that gave no answer -> why. Empty: the answer is exact.
    """

    def __init__(self, matches: Iterable[Match | None], partial: Mapping[str, str]) -> None:
        super().__init__(matches)
        self.partial = dict(partial)


class ModelSummary(NamedTuple):
    """One line of `Repository.models`."""

    model_id: ModelId
    scope: str
    quality: float | None
    step: int
    created: Tick
    labels: tuple[str, ...]
    own_bytes: int
    """Bytes that it stored itself."""


class Repository:
    """A handle on one repository, for one scope. Cheap; can be sent to tasks of the same cluster.

    Made by `daskevo.open` and `daskevo.get_repository`.

    Attributes
    ----------
    root:
        The folder, or None for a repository in memory.
    scope:
        What is inherited from and put into: models whose data and task are the same.
    objective:
        The scope's, or None.
    """

    def __init__(
        self,
        settings: Settings,
        scope: str,
        objective: Objective | None,
        timeout_s: float,
        connection: Connection | None = None,
    ) -> None:
        self.settings = settings
        self.scope = scope
        self.objective = objective
        self.timeout_s = timeout_s
        self._connection = connection

    def __repr__(self) -> str:
        place = "in memory" if self.root is None else repr(self.root)
        return f"<Repository {place}, scope {self.scope!r}, objective {self.objective}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._connection is not None and self._connection.session.reads_without_reserving:
            raise InvalidInput("a repository opened without a cluster can't be sent to another process")
        return Repository, (self.settings, self.scope, self.objective, self.timeout_s)

    @property
    def root(self) -> str | None:
        return self.settings.root

    @property
    def connection(self) -> Connection:
        """The way to the cluster from this thread: a task's own inside a task."""
        if is_in_task() or self._connection is None:
            return connect(self.settings.key, self.timeout_s)
        return self._connection

    @property
    def client(self) -> Any:
        """The Dask client it was opened with, or that of this process.

        Raises
        ------
        InvalidInput
            Inside a task, and for a look without a cluster.
        """
        client = getattr(self.connection, "client", None)
        if client is None:
            raise InvalidInput("this needs a Dask client: open the repository with client=..., outside of tasks")
        return client

    # -- inheriting ------------------------------------------------------------------------------------------------

    def inherit(
        self,
        model: Any,
        freeze: Any = "prefix",
        ancestor: str | Literal[False] | None = None,
        model_id: str | None = None,
        parent: str | None = None,
        match: Match | None = None,
        weights: str = "vertex",
    ) -> Inheritance:
        """Give a model the longest prefix of the best ancestor, reserved and frozen, in a ``with`` block.

        Parameters
        ----------
        model:
            An uncompiled Keras model.
        freeze:
            ``"prefix"`` (the paper's way), ``"none"``, a share of the prefix from 0 to 1, or a function of a layer.
        ancestor:
            The only model to inherit from; the best match when None; nothing when False (a baseline, a control arm).
        model_id:
            The id to store it under; drawn when None.
        parent:
            The candidate that a strategy mutated, for the record.
        match:
            Answer of an earlier query: tried first, then the next best.
        weights:
            What a vertex counts in the match: ``"vertex"`` (1) or ``"bytes"`` (what it transfers).

        Raises
        ------
        ModelNotFresh
            If the model was compiled or trained: freezing would not take effect.
        CannotFlatten
            If it has no architecture graph.
        InvalidName
            If an id isn't allowed.
        ModelExists, UnknownModel, ModelRetired, AttemptOver, ShardUnavailable
            On entering the block.
        """
        return Inheritance(
            self,
            model,
            freeze=freeze,
            ancestor=ancestor if ancestor is None or ancestor is False else ModelId(ancestor),
            model_id=None if model_id is None else ModelId(model_id),
            parent=None if parent is None else ModelId(parent),
            match=match,
            weights=weights,
        )

    def best_match(self, graphs: Any, weights: str = "vertex") -> Any:
        """Return the best match of each graph among all models of the scope.

        Parameters
        ----------
        graphs:
            Architecture graphs, or Keras models; one alone is a list of one.
        weights:
            ``"vertex"`` or ``"bytes"``.

        Returns
        -------
        Matches
        """
        questions = [Question.of(graph, weights) for graph in as_graphs(graphs)]

        async def ask(session: Session) -> Matches:
            answer = await session.asker.best(self.scope, questions, timeout_s=self.timeout_s / 2)
            return Matches(answer.matches, answer.silent)

        return self._run(ask)

    def query_futures(self, graphs: Any, weights: str = "vertex", client: Any = None) -> Any:
        """Do the same as a graph of Dask futures: one query per provider, one reduction, seen on the dashboard.

        Returns
        -------
        distributed.Future
            Of a tuple with the best `Match` of each graph, or None: for `inherit(match=...)` of the tasks that use it.
        """
        connection = connect(self.settings.key, self.timeout_s, client) if client is not None else self.connection
        found = client if client is not None else getattr(connection, "client", None)
        if found is None:
            raise InvalidInput("futures are submitted by a client: pass client=..., or use best_match inside a task")
        return connection.run(
            query_futures, found, self.settings.key, connection.session, self.scope, as_graphs(graphs), weights
        )

    # -- reading ---------------------------------------------------------------------------------------------------

    def load(self, model_id: str, *, custom_objects: Mapping[str, Any] | None = None) -> Any:
        """Return a stored model as a Keras model with its weights in place, uncompiled.

        Raises
        ------
        UnknownModel, ModelRetired, ModelLost, CannotRebuild
        """
        wanted = ModelId(check_name(model_id))
        caller = self.connection.caller()

        async def read(session: Session) -> tuple[ModelRecord, dict[int, Array]]:
            record = await session.open(wanted)
            return record, await read_model(session, caller, record)

        def build(found: tuple[ModelRecord, dict[int, Array]]) -> Any:
            from daskevo.models import rebuild_flat, write_tensors

            record, arrays = found
            rebuilt = rebuild_flat(record.architecture, custom_objects=custom_objects)
            write_tensors(rebuilt.flat, arrays)
            return rebuilt.model

        return self._run_then(read, build)

    def read(self, model_id: str, layers: Iterable[int | str] | None = None) -> Any:
        """Return tensors of a stored model, read-only.

        Parameters
        ----------
        layers:
            Layers by index in the architecture graph or by name; all when None.

        Returns
        -------
        dict
            (layer index, index in ``layer.weights``) -> array.
        """
        wanted = ModelId(check_name(model_id))
        chosen = None if layers is None else tuple(layers)
        caller = self.connection.caller()

        async def read(session: Session) -> dict[tuple[int, int], Array]:
            record = await session.open(wanted)
            keys = record.architecture.tensors
            numbers = _numbers_of(record, chosen)
            arrays = await read_model(session, caller, record, numbers)
            return {(keys[number].layer, keys[number].index): array for number, array in arrays.items()}

        return self._run(read)

    def record(self, model_id: str) -> Any:
        """Return the record of a published model (`daskevo.ownership.model_record.ModelRecord`)."""
        wanted = ModelId(check_name(model_id))
        return self._run(Session.open, wanted)

    def status(self, model_id: str) -> Any:
        """Return where a model stands: ``unknown``, ``staged``, ``published``, ``retiring`` or ``retired``.

        Returns
        -------
        Standing
            With `state`, `record` (a tombstone if it was retired) and `labels`.
        """
        wanted = ModelId(check_name(model_id))
        return self._run(Session.standing, wanted)

    def models(self, scope: str | None = None) -> Any:
        """Return all published models, of all scopes or of one, oldest first."""
        if scope is not None:
            check_name(scope, "scope")

        async def ask(session: Session) -> list[ModelSummary]:
            answers = await session.directory.all("models", timeout_s=self.timeout_s, scope=scope)
            found = [
                ModelSummary(ModelId(row[0]), row[1], row[2], row[3], Tick.parse(row[4]), tuple(row[5]), row[6])
                for answer in answers
                for row in answer
            ]
            return sorted(found, key=lambda summary: (summary.created, summary.model_id))

        return self._run(ask)

    # -- labels ----------------------------------------------------------------------------------------------------

    def hold(self, model_id: str, label: str) -> Any:
        """Keep a model under one more label, e.g. ``user:my paper``; return its labels.

        Raises
        ------
        UnknownModel, ModelRetired
        """
        return self._run(Session.hold, ModelId(check_name(model_id)), check_label(label))

    def release(self, model_id: str, label: str) -> Any:
        """Take a label away; with the last one the model is retired. Return the labels that are left."""
        return self._run(Session.release, ModelId(check_name(model_id)), check_label(label))

    def release_label(self, label: str) -> Any:
        """Take a label from all models, e.g. when a run is deleted.

        Returns
        -------
        Models that held it, and those of them that were retired by it.
        """
        return self._run(Session.release_label, check_label(label))

    def retire(self, model_id: str) -> Any:
        """Take all labels of a model away, whatever they are."""
        return self._run(Session.retire, ModelId(check_name(model_id)))

    # -- provenance ------------------------------------------------------------------------------------------------

    def lineage(self, model_id: str) -> Any:
        """Return the records of a model and of those it inherited from, one after the other, retired ones included.

        Raises
        ------
        UnknownModel
        """
        return self._run(_lineage, ModelId(check_name(model_id)))

    def common_ancestor(self, first: str, second: str) -> Any:
        """Return the id of the nearest model that both inherited from (each counts as its own), or None."""
        ids = ModelId(check_name(first)), ModelId(check_name(second))

        async def find(session: Session) -> ModelId | None:
            lineages = [await _lineage(session, model_id) for model_id in ids]
            others = {record.model_id for record in lineages[1]}
            return next((record.model_id for record in lineages[0] if record.model_id in others), None)

        return self._run(find)

    def contributors(self, model_id: str) -> Any:
        """Return which models stored the tensors of a published model, with their bytes, largest share first."""
        wanted = ModelId(check_name(model_id))

        async def find(session: Session) -> list[Contribution]:
            record = await session.open(wanted)
            keys = record.architecture.tensors
            return contributors(record, [key.spec for key in keys])

        return self._run(find)

    # -- the whole -------------------------------------------------------------------------------------------------

    def stats(self) -> Any:
        """Return counts and bytes: of the whole, of the coordinator, and by provider.

        Returns
        -------
        dict
            ``models``, ``tensors``, ``payload_bytes`` (stored), ``full_copy_bytes`` (if nothing were shared),
            ``retained_bytes`` (of retired models, kept for descendants and reservations), ``memory_bytes``,
            ``spilled_bytes``, ``durability``, ``root``, ``shards``, ``unserved_shards``, ``lost_shards``,
            ``live_attempts``, ``unsettled``, ``providers``, ``silent``.
        """
        return self._run(_stats, self.timeout_s)

    def verify(self, repair: bool = False) -> Any:
        """Look for everything that isn't as promised; without `repair` nothing is changed.

        Returns
        -------
        Verification
            With `clean`, `differences`, `models`, `tensors`, `payload_bytes`.
        """

        if repair and isinstance(self.connection, OfflineConnection):
            self.connection.repair()
            self._connection = OfflineConnection(self.connection.root.path, self.timeout_s)

        async def look(session: Session) -> Verification:
            return await verify(session, repair=repair and not session.reads_without_reserving)

        return self._run(look)

    def _run(self, function: Any, *arguments: Any) -> Any:
        # The connection is this thread's; the coroutine runs in another.
        connection = self.connection
        return connection.run(function, connection.session, *arguments)

    def _run_then(self, function: Any, then: Any) -> Any:
        """Run a coroutine function, then `then` with its result, in the caller's thread where there is one."""
        result = self._run(function)
        if not self.connection.asynchronous:
            return then(result)

        async def both() -> Any:
            return then(await result)

        return both()


async def _lineage(session: Session, model_id: ModelId) -> list[ModelRecord]:
    found: list[ModelRecord] = []
    current: ModelId | None = model_id
    while current is not None and all(record.model_id != current for record in found):
        standing = await session.standing(current)
        if standing.record is None:
            if not found:
                raise await session.missing(model_id, "unknown")
            break
        found.append(standing.record)
        current = standing.record.ancestor
    return found


async def _stats(session: Session, timeout_s: float) -> dict[str, Any]:
    await session.outbox.sent()
    coordinator = await session.transport.coordinator("stats", timeout_s=timeout_s)
    answers, silent = await session.directory.everywhere("stats", timeout_s=timeout_s, patient=False)
    sums = (
        "models",
        "tombstones",
        "staged",
        "references",
        "tensors",
        "payload_bytes",
        "memory_bytes",
        "spilled_bytes",
        "retained_bytes",
        "full_copy_bytes",
    )
    return {
        **coordinator,
        **{name: sum(answer[name] for answer in answers.values()) for name in sums},
        "providers": answers,
        "silent": silent,
    }


def as_graphs(graphs: Any) -> list[ArchitectureGraph]:
    """Return architecture graphs: of Keras models, or as they are; one alone becomes a list."""
    found = list(graphs) if isinstance(graphs, (list, tuple)) else [graphs]
    if all(isinstance(graph, ArchitectureGraph) for graph in found):
        return found
    from daskevo.models import flatten

    return [graph if isinstance(graph, ArchitectureGraph) else flatten(graph).graph for graph in found]


def _numbers_of(record: ModelRecord, layers: Sequence[int | str] | None) -> list[int] | None:
    if layers is None:
        return None
    graph = record.architecture
    numbers: set[int] = set()
    for wanted in layers:
        found = [
            index for index, layer in enumerate(graph.layers) if wanted in (index, layer.name) and wanted is not True
        ]
        if not found:
            raise InvalidInput(
                f"{record.model_id!r} has no layer {wanted!r}: its layers are 0 to {len(graph.layers) - 1}, "
                f"{', '.join(layer.name for layer in graph.layers[:10])}...",
                model_id=record.model_id,
            )
        for index in found:
            numbers.update(graph.tensor_numbers(index))
    return sorted(numbers)
