"""Replay of a journal: recreate a shard's state, and limit the damage of a bad record to the model that it names.

Records are applied as when they were written. An owner may have appended a record without applying it, if its event
loop ended in between. Its later records tell, and they count, since the owner decided and answered by its own state.

==========================================================  ============================================================
a model published again, by the same attempt                a repeated message: the model is published
a model published again, by another attempt                 the first was not applied: the second is published
the abort of an attempt that published                      publishing was not applied: the attempt is aborted
a label of a model that is retiring                         retiring was not applied: the model is published
bits on tensors that are not stored                         the owner had them: they are stored
a model published without being staged, or unreadable       it is lost; tensors that others inherit from it stay
any other record that doesn't fit                           skipped; the model may lack tensors, `verify` reports them
==========================================================  ============================================================
"""

from __future__ import annotations

from collections.abc import Iterable

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
from daskevo.protocol.state import Model, ShardState
from daskevo.types import Attempt, ModelId


class JournalReplay:
    """Applies a journal's records to a state.

    Attributes
    ----------
    freed:
        Segments that had no living tensors at some time, in order.
    lost:
        Models that are lost, or may lack tensors, because records can't be used -> description.

    Raises
    ------
    CorruptRecord
        If a record that concerns the whole shard does not fit.
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
        # Only now: later records may have shown that others use tensors of a lost model.
        for model in self._salvaged:
            state.bury(model)

    def _reconcile(self, record: Record) -> bool:
        """Change the state so that the record fits; return False if the record need not be applied."""
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
        """Keep a lost model as a retired one: its id stays taken, and tensors that others use stay stored."""
        self._salvaged[model_id] = attempt
        self._state.tombstones.pop(model_id, None)
        if model_id not in self._state.models:
            nothing = ModelRecord(model_id, attempt, _NO_SCOPE, None, OwnerMap(()), {}, attempt)
            record = self._rests.get((model_id, attempt), nothing)
            # The size of its file is not known; 0 says that there may be one, which None would deny.
            self._state.models[model_id] = Model(record, "retired", 0, {}, {})
            self._state.references.published[model_id] = attempt


_NO_SCOPE = "lost"
"""Scope of models whose record can't be read."""
