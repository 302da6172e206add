"""Methods of the repository handle that read: load models, read tensors, records, status and lists."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.client.best_match import left_out
from daskevo.client.model_reader import read_model
from daskevo.client.session import Session
from daskevo.errors import CannotRebuild, InvalidInput
from daskevo.graph import ArchitectureGraph
from daskevo.graph.attached import detach, is_snapshot
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.replies import Standing
from daskevo.protocol.scopes import check_scope
from daskevo.repository.handle_base import HandleBase
from daskevo.repository.results import FoundList, ModelSummary
from daskevo.types import ModelId, check_name

if TYPE_CHECKING:
    import keras

Array = np.ndarray[Any, Any]


class StoredModels(HandleBase):
    """Load, read, record, status, models."""

    def load(self, model_id: str, *, custom_objects: Mapping[str, Any] | None = None) -> keras.Model:
        """Return a stored model, or the model of a snapshot, as an uncompiled Keras model with its weights.

        The Keras model is named by its id, so that several can be parts of one model, such as an ensemble.

        Raises
        ------
        UnknownModel, ModelRetired, ModelLost, CannotRebuild

        Warns
        -----
        LayerCodeChanged
            If the code of a layer of one's own is another than when the model was stored, once for each model: it has
            its weights, and may predict something else than what was scored.
        """
        wanted = ModelId(check_name(model_id))
        caller = self.connection.caller()

        async def read(session: Session) -> tuple[ArchitectureGraph, dict[int, Array]]:
            record = await session.open(wanted)
            # Decoding a large graph takes some milliseconds, in which the event loop would answer nobody.
            graph = await asyncio.to_thread(_model_graph, record)
            return graph, await read_model(session, caller, record, range(len(graph.tensors)))

        def build(found: tuple[ArchitectureGraph, dict[int, Array]]) -> keras.Model:
            from daskevo.models import rebuild_flat

            graph, arrays = found
            return rebuild_flat(graph, custom_objects=custom_objects, tensors=arrays, name=wanted).model

        return self._run_then(read, build)

    def read(self, model_id: str, layers: Iterable[int | str] | None = None) -> dict[tuple[int, int], Array]:
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

    def record(self, model_id: str) -> ModelRecord:
        """Return the record of a published model (`daskevo.protocol.model_record.ModelRecord`)."""
        wanted = ModelId(check_name(model_id))
        return self._run(Session.open, wanted)

    def status(self, model_id: str) -> Standing:
        """Return the status of a model: ``unknown``, ``staged``, ``published``, ``retiring`` or ``retired``.

        Returns
        -------
        Standing
            With `state`, `record` (a tombstone if it was retired) and `labels`.
        """
        wanted = ModelId(check_name(model_id))
        return self._run(Session.standing, wanted)

    def models(self, scope: str | None = None, *, snapshots: bool = False) -> FoundList[ModelSummary]:
        """Return all published models, of all scopes or of one, oldest first.

        Parameters
        ----------
        snapshots:
            Whether to include snapshots, of all scopes or of that one.

        Returns
        -------
        list of ModelSummary
            Its `partial` has the shards that are left out (damaged ones, and in a repository in memory those lost with
            their provider) -> why.
        """
        asked = None if scope is None else check_scope(scope)

        async def ask(session: Session) -> FoundList[ModelSummary]:
            answers = await session.directory.all(
                "models", timeout_s=self.timeout_s, scope=asked, with_snapshots=snapshots
            )
            found = [ModelSummary.of_row(row) for answer in answers for row in answer]
            found.sort(key=lambda summary: (summary.created, summary.model_id))
            return FoundList(found, left_out(await session.directory.table()))

        return self._run(ask)


def _model_graph(record: ModelRecord) -> ArchitectureGraph:
    """Return the graph of the model in a record; in a snapshot, the model's tensors have the first numbers."""
    if not is_snapshot(record.architecture):
        return record.architecture
    graph = detach(record.architecture).graph
    if graph is None:
        raise CannotRebuild(
            f"{record.model_id!r} is a snapshot without an architecture graph, of a training loop of its own: "
            "read_snapshot gives what it holds",
            model_id=record.model_id,
        )
    return graph


def _numbers_of(record: ModelRecord, layers: Sequence[int | str] | None) -> list[int] | None:
    if layers is None:
        return None
    graph = record.architecture
    numbers: set[int] = set()
    for wanted in layers:
        found = [
            index
            for index, layer in enumerate(graph.layers)
            # True and False equal 1 and 0, but name no layer.
            if wanted in (index, layer.name) and not isinstance(wanted, bool)
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
