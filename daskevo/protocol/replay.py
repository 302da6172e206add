"""A shard's state from its journal: a record that can't be read, or doesn't fit, costs the model that it names at most.

Records are applied as they were when they were written. What an owner has appended and then not known (its work was
cut off in between) shows in what it wrote later, which counts: it was decided and answered from what the owner knew.

==========================================================  ============================================================
a model published again, by the same attempt                the same message came again: it is published
a model published again, by another attempt                 the owner never knew the first: the second is published
the abort of an attempt that published                      the owner never knew: it is aborted
a label of a model that is retiring                         the owner never knew that: it is published
bits on tensors that are not there                          the owner had them: they are there
a model published without being staged, or unreadable       it is lost; what others inherit from it stays
anything else that doesn't fit                              left out; its model may lack tensors, which `verify` says
==========================================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from daskevo.errors import CorruptRecord
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerMap
from daskevo.protocol.records import (
    Aborted,
    Kept,
    LabelHeld,
    LabelsReleased,
    Published,
    Record,
    Referred,
    Retired,
    Retiring,
    Staged,
    Tombstone,
    Unreadable,
)
from daskevo.protocol.references import Segment, mask_of
from daskevo.types import Attempt, ModelId

if TYPE_CHECKING:
    from daskevo.protocol.state import ShardState


class JournalReplay:
    """Applies a journal's records to a state.

    Attributes
    ----------
    freed:
        Segments of which nothing was left at some time, in order.
    lost:
        Models that records which can't be used have cost, or may have -> what was wrong.

    Raises
    ------
    CorruptRecord
        If a record that concerns the whole shard doesn't fit.
    """

    def __init__(self, state: ShardState, records: Iterable[Record]) -> None:
        self._state = state
        self._salvaged: dict[ModelId, Attempt] = {}
        self._rests: dict[Segment, ModelRecord] = {}
        self.freed: dict[Segment, None] = {}
        self.lost: dict[ModelId, str] = {}
        for record in records:
            try:
                if self._reconcile(record):
                    self.freed.update(dict.fromkeys(state.apply(record).segments))
            except CorruptRecord as error:
                model = record.record.model_id if isinstance(record, Kept) else getattr(record, "model", None)
                if model is None:
                    raise
                self.lost.setdefault(model, error.message)
        for model in self._salvaged:
            state.bury(model)

    def _reconcile(self, record: Record) -> bool:
        """Make the state one that the record fits; False: it says nothing that isn't known."""
        match record:
            case Unreadable():
                self._unreadable(record)
                return False
            case Staged():
                return not self._is_published_by(record.record.model_id, record.record.attempt)
            case Published():
                return self._reconcile_published(record)
            case Aborted():
                if self._is_published_by(record.model, record.attempt):
                    self._forget(record.model)
            case LabelHeld() | LabelsReleased() | Retiring() | Retired() if record.model in self._salvaged:
                return False
            case LabelHeld() | LabelsReleased():
                self._publish_again(record.model)
            case Referred() if record.owner == record.model and record.owner in self._salvaged:
                return False
            case Referred():
                self._find_tensors(record)
        return True

    def _reconcile_published(self, record: Published) -> bool:
        if self._is_published_by(record.model, record.attempt):
            return False
        if record.attempt not in self._state.staged.get(record.model, {}):
            if self._state.find(record.model) is None:
                self._salvage(record.model, record.attempt)
                self.lost.setdefault(record.model, "it was published without being staged")
                return False
        elif record.model in self._state.models:
            self._forget(record.model)
        return True

    def _is_published_by(self, model_id: ModelId, attempt: Attempt) -> bool:
        model = self._state.models.get(model_id)
        return model is not None and model.record.attempt == attempt

    def _forget(self, model_id: ModelId) -> None:
        references = self._state.references
        segment = (model_id, self._state.models.pop(model_id).record.attempt)
        self.freed.update(dict.fromkeys(references.remove(model_id, segment, references.of(model_id, segment))))
        references.published.pop(model_id, None)

    def _publish_again(self, model_id: ModelId) -> None:
        model = self._state.models.get(model_id)
        if model is not None and model.state == "retiring":
            model.state = "published"
            self._state.references.store(model_id, model.record.attempt, mask_of(model.record.own))

    def _find_tensors(self, record: Referred) -> None:
        owner, references = record.owner, self._state.references
        if owner in self._salvaged:
            self._salvage(owner, self._salvaged[owner])
        attempt = references.published.get(owner)
        if attempt is not None:
            there = references.there(owner)
            references.alive[owner, attempt] = there | mask_of(record.numbers)

    def _unreadable(self, record: Unreadable) -> None:
        if record.model is not None:
            self.lost[record.model] = record.found
        if record.rest is not None:
            self._rests[record.rest.model_id, record.rest.attempt] = record.rest
        if record.model is not None and record.attempt is not None and record.kind in (Kept, Tombstone):
            self._salvage(record.model, record.attempt)

    def _salvage(self, model_id: ModelId, attempt: Attempt) -> None:
        """Keep the id of a lost model, and its tensors as far as others use them, as those of a retired one."""
        from daskevo.protocol.state import Model

        self._salvaged[model_id] = attempt
        self._state.tombstones.pop(model_id, None)
        if model_id not in self._state.models:
            nothing = ModelRecord(model_id, attempt, _NO_SCOPE, None, OwnerMap(()), {}, attempt)
            record = self._rests.get((model_id, attempt), nothing)
            # Whatever the file's size is: there may be one.
            self._state.models[model_id] = Model(record, "retired", 0, {}, {})
            self._state.references.published[model_id] = attempt


_NO_SCOPE = "lost"
"""Of a model whose record can't be read."""
