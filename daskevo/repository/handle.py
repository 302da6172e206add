"""The repository handle: the public facade over the cluster and over Keras models.

All calls that wait have a time limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from daskevo.client.best_match import Question
from daskevo.client.connection import connect
from daskevo.client.query_futures import query_futures
from daskevo.client.session import Session
from daskevo.client.verify import Verification, verify
from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.index import PrefixMatch
from daskevo.offline.root import OfflineConnection
from daskevo.protocol.model_record import ModelRecord
from daskevo.repository.early_reservation import EarlyReservation, InheritanceRequest
from daskevo.repository.foreign_models import ForeignModels
from daskevo.repository.inheritance import Inheritance
from daskevo.repository.labels import Labels
from daskevo.repository.provenance import Provenance
from daskevo.repository.rebuild_check import not_rebuilt, read_records
from daskevo.repository.results import Matches, ModelSummary
from daskevo.repository.snapshots import Snapshots
from daskevo.repository.stored_models import StoredModels
from daskevo.types import ModelId

if TYPE_CHECKING:
    from distributed import Client, Future

UNSAID = (None, None, None, "vertex", 0)
"""Defaults of those arguments of `inherit` that choose the ancestor and the id."""


class Repository(StoredModels, Snapshots, Labels, Provenance, ForeignModels):
    """A handle on one repository, for one scope. It is cheap, and can be sent to tasks of the same cluster.

    `daskevo.open` and `daskevo.get_repository` return it.

    Attributes
    ----------
    root:
        The folder, or None for a repository in memory.
    scope:
        The models to inherit from and to put into: those with the same data and task.
    objective:
        The scope's objective, or None.
    """

    def inherit(
        self,
        model: Any,
        freeze: Any = "prefix",
        ancestor: str | Literal[False] | None = None,
        model_id: str | None = None,
        parent: str | None = None,
        match: PrefixMatch | None = None,
        weights: str = "vertex",
        minimum_layers: int = 0,
        reserved: EarlyReservation | None = None,
    ) -> Inheritance:
        """Give a model the longest prefix of the best ancestor, reserved and frozen, in a ``with`` block.

        Parameters
        ----------
        model:
            An uncompiled Keras model.
        freeze:
            Layers to freeze: ``"prefix"`` (as in the paper), ``"none"``, a share of the prefix from 0 to 1,
            ``"steps:K"`` (layers with K or more steps of training), or a function of a layer.
        ancestor:
            The only model to inherit from; None: the best match; False: nothing (a baseline, a control arm).
        model_id:
            The id to store it under; drawn at random when None.
        parent:
            The candidate that a strategy mutated, for the record.
        match:
            Result of an earlier query, which is tried before the next best.
        weights:
            Weight of a vertex in the match: ``"vertex"`` (1) or ``"bytes"`` (the bytes of its weights).
        minimum_layers:
            Minimum number of shared layers with weights; nothing is inherited from an ancestor that shares fewer.
        reserved:
            A reservation that `reserve` made for this model; it determines the ancestor. If the model turns out to have
            another graph, the reservation is dropped and made again.

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
        if reserved is not None and (ancestor, model_id, match, weights, minimum_layers) != UNSAID:
            words = "ancestor, model_id, match, weights and minimum_layers"
            raise InvalidInput(f"`reserved` knows its {words}: give them to `reserve`")
        request = (
            InheritanceRequest.of(model_id, ancestor, match, weights, minimum_layers)
            if reserved is None
            else reserved.request
        )
        name = None if parent is None else ModelId(parent)
        return Inheritance(self, model, freeze=freeze, request=request, parent=name, early=reserved)

    def reserve(
        self,
        graph: Any,
        ancestor: str | Literal[False] | None = None,
        model_id: str | None = None,
        match: PrefixMatch | None = None,
        weights: str = "vertex",
        minimum_layers: int = 0,
        knows_loaded: bool = False,
    ) -> EarlyReservation:
        """Begin to inherit before the model is built, in a ``with`` block: match, reserve and read in the background.

        ::

            with repository.reserve(graph) as reserved:
                model = build()
                with repository.inherit(model, reserved=reserved) as child:
                    ...

        Parameters
        ----------
        graph:
            The architecture graph that the model will have, or a Keras model that has it (one built in
            `daskevo.models.shape_only` will do).
        ancestor, model_id, match, weights, minimum_layers:
            As `inherit` takes them.
        knows_loaded:
            Whether the graph tells into which layers weights were loaded (`daskevo.models.given_weights`), so that
            `inherit` need not find out.

        Raises
        ------
        InvalidName, CannotFlatten
            `inherit` raises all other errors, on entering its block.
        """
        (one,) = as_graphs(graph)
        request = InheritanceRequest.of(model_id, ancestor, match, weights, minimum_layers)
        return EarlyReservation(self, one, request, knows_loaded=knows_loaded)

    def best_match(self, graphs: Any, weights: str = "vertex") -> Matches:
        """Return the best match of each graph among all models of the scope.

        Parameters
        ----------
        graphs:
            Architecture graphs or Keras models; a single one counts as a list of one.
        weights:
            ``"vertex"`` or ``"bytes"``.

        Returns
        -------
        Matches
        """
        questions = [Question.of(graph, weights) for graph in as_graphs(graphs)]

        async def ask(session: Session) -> Matches:
            # Half of the time limit: if providers change meanwhile, the query is sent a second time.
            answer = await session.query_batcher.best(self.scope, questions, timeout_s=self.timeout_s / 2)
            return Matches(answer.matches, answer.silent)

        return self._run(ask)

    def query_futures(
        self,
        graphs: Any,
        weights: str = "vertex",
        client: Client | None = None,
        exclude: Iterable[str] = (),
    ) -> Future:
        """Find best matches by Dask futures, one query per provider and one reduction, visible on the dashboard.

        Parameters
        ----------
        graphs, weights:
            As `best_match` takes them.
        client:
            Submits the futures; by default the client by which the repository was opened.
        exclude:
            Models that are no match. A search excludes what it has under way, so that its ancestors don't depend on
            how fast providers answer.

        Returns
        -------
        distributed.Future
            Of a tuple with the best `PrefixMatch` of each graph, or None, for `inherit(match=...)` in tasks. All
            providers must answer: if one is suspended or cut off, there is no result until it wakes up or Dask
            considers it dead. So wait with a `timeout` and cancel the future then; `best_match` and `inherit` go on
            without such a provider, and name it.
        """
        connection = connect(self.settings.key, self.timeout_s, client) if client is not None else self.connection
        found = client if client is not None else getattr(connection, "client", None)
        if found is None:
            raise InvalidInput("futures are submitted by a client: pass client=..., or use best_match inside a task")
        return connection.run(
            query_futures,
            found,
            self.settings.key,
            connection.session,
            self.scope,
            [Question.of(graph, weights, map(ModelId, exclude)) for graph in as_graphs(graphs)],
        )

    def close(self, force: bool = False) -> None:
        """Close the repository for all users of this cluster: stop its services, and release the lease.

        The root stays, and `daskevo.open` opens it again, here or elsewhere. A repository in memory is lost. Existing
        handles can't be used until it is opened again. A repository opened without a cluster has nothing to close.

        Parameters
        ----------
        force:
            Whether to close it while others inherit, read or put; what they have not stored yet is lost.

        Raises
        ------
        ClusterError
            If others use it, without `force`.
        InvalidInput
            Inside a task.
        """
        # Opened without a cluster: it holds no lease, and no service runs.
        if self.connection.session.reads_without_reserving:
            return None
        client = self.client

        async def close(session: Session) -> None:
            # Drops that this process has queued: closed shards don't take them, and they would wait for the next
            # opening's audit.
            await session.outbox.sent()
            await session.transport.coordinator("close", timeout_s=self.timeout_s, client=client.id, force=force)

        return self._run(close)

    def stats(self) -> dict[str, Any]:
        """Return counts and bytes of the repository, of the coordinator, and by provider.

        Returns
        -------
        dict
            ``models`` (snapshots included), ``snapshots``, ``tensors``, ``payload_bytes`` (of stored tensors),
            ``file_bytes`` (of their files), ``journal_bytes``, ``tombstones`` (retired ids), ``full_copy_bytes``
            (without sharing), ``retained_bytes`` (of retired models, kept for descendants and reservations),
            ``memory_bytes``, ``spilled_bytes``, ``durability``, ``root``, ``shards``, ``unserved_shards``,
            ``lost_shards``, ``live_attempts``, ``unsettled``, ``waiting_retirements`` (model -> why its retirement
            has to wait, as of the providers' last heartbeats), ``providers``, ``silent``.
        """
        return self._run(_stats, self.timeout_s)

    def verify(
        self, repair: bool = False, *, rebuild: bool = False, custom_objects: Mapping[str, Any] | None = None
    ) -> Verification:
        """Look for everything that isn't as promised; without `repair` nothing is changed.

        A repair drops what nobody uses, gives published models back references that a shard restored from an older
        copy doesn't know, and removes what died writers left. Models whose tensors are gone it marks as lost: loading
        one says since when, and they can be retired.

        Parameters
        ----------
        repair:
            Mend what can be mended.
        rebuild:
            Rebuild each model from its architecture, too, as loading it does, without weights: needs Keras, and some
            ten milliseconds for each architecture. What can't be loaded here is a difference, named with its layer; so
            is a model with a layer of one's own whose code is another than when it was stored.
        custom_objects:
            Name -> class or function, for layers that aren't registered, as `load` takes them.

        Returns
        -------
        Verification
            With `clean`, `differences`, `models`, `tensors`, `payload_bytes`, `file_bytes`; `mended` (what the repair
            found, and is not so any more), `lost` (models that can't be loaded any more), `foreign` (files in the
            root that aren't daskevo's).
        """

        if repair and isinstance(self.connection, OfflineConnection):
            repaired = self.connection.repair()
            # Opened again: the connection of before has the shards in memory as they were before the repair.
            self._connection = OfflineConnection(self.connection.root.path, self.timeout_s)
            return _with_rebuilt((repaired, self._run(_records) if rebuild else []), custom_objects)

        async def look(session: Session) -> tuple[Verification, list[ModelRecord]]:
            found = await verify(session, repair=repair)
            return found, await _records(session) if rebuild else []

        return self._run_then(look, lambda found: _with_rebuilt(found, custom_objects))


async def _records(session: Session) -> list[ModelRecord]:
    # Of all scopes, not of the handle's alone: a verification is about the whole repository.
    answers = await session.directory.all("models", timeout_s=session.timeout_s, scope=None, with_snapshots=True)
    return await read_records(session, sorted(ModelSummary.of_row(row).model_id for rows in answers for row in rows))


def _with_rebuilt(
    looked: tuple[Verification, list[ModelRecord]], custom_objects: Mapping[str, Any] | None
) -> Verification:
    found, records = looked
    more = not_rebuilt(records, custom_objects) if records else []
    return replace(found, differences=(*found.differences, *more))


async def _stats(session: Session, timeout_s: float) -> dict[str, Any]:
    await session.outbox.sent()
    # Tensors of retired models are freed in the background: wait, so that they don't count any more.
    await session.directory.everywhere("retirements", timeout_s=timeout_s, patient=False)
    coordinator = await session.transport.coordinator("stats", timeout_s=timeout_s)
    answers, silent = await session.directory.everywhere("stats", timeout_s=timeout_s, patient=False)
    sums = (
        "models",
        "snapshots",
        "tombstones",
        "staged",
        "references",
        "tensors",
        "payload_bytes",
        "file_bytes",
        "journal_bytes",
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
    """Return a list of architecture graphs, given graphs or Keras models, or a single one."""
    found = list(graphs) if isinstance(graphs, (list, tuple)) else [graphs]
    if all(isinstance(graph, ArchitectureGraph) for graph in found):
        return found
    # Here and not above: it imports Keras, which takes seconds, and a query for graphs needs none.
    from daskevo.models import flatten, is_fresh, loaded_weights

    def graph_of(model: Any) -> ArchitectureGraph:
        flat = flatten(model)
        # What training made of a model's weights is nothing that somebody loaded.
        return flat.graph.started(loaded_weights(flat)) if is_fresh(model) else flat.graph

    return [graph if isinstance(graph, ArchitectureGraph) else graph_of(graph) for graph in found]
