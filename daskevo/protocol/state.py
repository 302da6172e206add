"""State of one shard, which changes only by applying records, both live and when a journal is replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import singledispatchmethod

from daskevo.errors import CorruptRecord
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.records import (
    BEGINNING,
    Aborted,
    Dropped,
    Generation,
    Kept,
    LabelEnded,
    LabelHeld,
    LabelsReleased,
    Published,
    Record,
    Referred,
    Retired,
    Retiring,
    Staged,
    Tombstone,
)
from daskevo.protocol.references import References, Segment, mask_of, numbers_in
from daskevo.protocol.replies import ModelState
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Retirement:
    """A retirement to carry out: drop all bits of (model, attempt) at other owners, then send `FinishRetirement`."""

    model: ModelId
    attempt: Attempt
    uses: Mapping[ModelId, frozenset[int]]
    """Tensors that the model's map uses, by owner. At other owners it has no bits, except unused ones whose drop was
    lost, which the audit removes."""


@dataclass(frozen=True)
class Effects:
    """Effects of a record outside the state, to be carried out after it was applied.

    Files may be deleted only after the record was flushed and the epoch checked; tensors in memory may be freed at
    once.
    """

    freed: Mapping[Segment, frozenset[int]] = field(default_factory=dict)
    """Tensor numbers without bits, to be freed, by segment (owner, attempt)."""
    segments: tuple[Segment, ...] = ()
    """Segments without living tensors, whose files are to be deleted."""
    published: ModelId | None = None
    """Model to add to the index."""
    unpublished: tuple[ModelId, ...] = ()
    """Models to remove from the index."""
    retire: tuple[Retirement, ...] = ()
    """Retirements to carry out at other owners."""


@dataclass
class Model:
    """A model that was published here."""

    record: ModelRecord
    state: ModelState
    file_bytes: int | None
    held: dict[str, Tick]
    released: dict[str, Tick]
    """Ticks of labels removed under this generation, by which a late message that adds one of them is recognised."""


@dataclass
class ShardState:
    """The complete state of a shard: equal states answer every message alike."""

    generation: int = 0
    floor: Tick = BEGINNING
    models: dict[ModelId, Model] = field(default_factory=dict)
    """Models that have a label, are retiring, or are retired with tensors that others still use."""
    tombstones: dict[ModelId, Tombstone] = field(default_factory=dict)
    """All other models that were ever published."""
    staged: dict[ModelId, dict[Attempt, Staged]] = field(default_factory=dict)
    fences: dict[ModelId, set[Attempt]] = field(default_factory=dict)
    ended_labels: dict[str, Tick] = field(default_factory=dict)
    references: References = field(default_factory=References)

    def find(self, model_id: ModelId) -> Model | None:
        """Return a model that was ever published here, also if only its tombstone is left."""
        stone = self.tombstones.get(model_id)
        return self.models.get(model_id) if stone is None else Model(stone.record, "retired", None, {}, {})

    @singledispatchmethod
    def apply(self, record: Record) -> Effects:
        """Apply one record.

        Raises
        ------
        CorruptRecord
            If the record doesn't fit this state: the journal differs from what was written.
        """
        raise CorruptRecord(f"a shard's journal can't hold {type(record).__name__}")

    @apply.register
    def _(self, record: Generation) -> Effects:
        self.generation = max(self.generation, record.generation)
        self.floor = max(self.floor, record.floor)
        # From here on, attempts and ticks of older generations are refused as such. So their fences are no longer
        # needed, nor the ticks that tell late messages.
        self.ended_labels = self._of_this_generation(self.ended_labels)
        for known in self.models.values():
            known.released = self._of_this_generation(known.released)
        self.fences = {
            model: kept
            for model, attempts in self.fences.items()
            if (kept := {attempt for attempt in attempts if attempt.generation >= self.generation})
        }
        freed: dict[Segment, int] = {}
        for model, attempts in list(self.staged.items()):
            for attempt in list(attempts):
                if attempt.generation < self.generation:
                    freed |= self._unstage(model, attempt)
        return _freed(freed, self.references)

    @apply.register
    def _(self, record: Referred) -> Effects:
        mask = mask_of(record.numbers)
        if mask & ~self.references.there(record.owner):
            raise CorruptRecord(f"bits on tensors of {record.owner!r} that are not there", record=record)
        self.references.add(record.owner, (record.model, record.attempt), mask)
        return Effects()

    @apply.register
    def _(self, record: Dropped) -> Effects:
        claim = (record.model, record.attempt)
        gone = self.references.remove(record.owner, claim, mask_of(record.numbers))
        # The owner may have been retired, and kept only for the tensors that were referred to.
        self.bury(record.owner)
        return _freed(gone, self.references)

    @apply.register
    def _(self, record: Staged) -> Effects:
        model, attempt = record.record.model_id, record.record.attempt
        self.staged.setdefault(model, {})[attempt] = record
        self.references.store(model, attempt, mask_of(record.record.own))
        return Effects()

    @apply.register
    def _(self, record: Published) -> Effects:
        staged = self.staged.get(record.model, {}).pop(record.attempt, None)
        if staged is None or self.find(record.model) is not None:
            raise CorruptRecord(f"{record.model!r} was published without being staged, or twice", record=record)
        if not self.staged[record.model]:
            del self.staged[record.model]  # equal states must compare equal: no empty entries
        self.models[record.model] = Model(staged.record, "published", staged.file_bytes, dict(record.labels), {})
        self.references.published[record.model] = record.attempt
        return Effects(published=record.model) if record.labels else self._retire(record.model, {})

    @apply.register
    def _(self, record: Aborted) -> Effects:
        # In a head, the record of the generation comes first, so that fences of older ones are not brought back.
        if record.attempt.generation >= self.generation:
            self.fences.setdefault(record.model, set()).add(record.attempt)
        return _freed(self._unstage(record.model, record.attempt), self.references)

    @apply.register
    def _(self, record: LabelHeld) -> Effects:
        model = self._model(record.model)
        model.held[record.label] = record.tick
        model.released.pop(record.label, None)
        return Effects()

    @apply.register
    def _(self, record: LabelsReleased) -> Effects:
        self._release(self._model(record.model), record.labels)
        return Effects()

    @apply.register
    def _(self, record: Retiring) -> Effects:
        return self._retire(record.model, record.labels)

    @apply.register
    def _(self, record: LabelEnded) -> Effects:
        ended = max(record.tick, self.ended_labels.get(record.label, BEGINNING))
        self.ended_labels |= self._of_this_generation({record.label: ended})
        freed: dict[Segment, int] = {}
        unpublished: list[ModelId] = []
        retirements: list[Retirement] = []
        for model_id, last in self.holders(record.label, record.tick).items():
            if last:
                effects = self._retire(model_id, {record.label: record.tick})
                freed |= {segment: mask_of(numbers) for segment, numbers in effects.freed.items()}
                unpublished += effects.unpublished
                retirements += effects.retire
            else:
                self._release(self.models[model_id], {record.label: record.tick})
        return _freed(freed, self.references, tuple(unpublished), tuple(retirements))

    @apply.register
    def _(self, record: Retired) -> Effects:
        model = self._model(record.model)
        model.state = "retired"
        model.record = model.record.tombstone()
        model.held, model.released = {}, {}
        self.bury(record.model)
        return Effects()

    @apply.register
    def _(self, record: Kept) -> Effects:
        kept = record.record
        if self.find(kept.model_id) is not None:
            raise CorruptRecord(f"the head names {kept.model_id!r} twice", record=record)
        self.models[kept.model_id] = Model(
            kept, record.state, record.file_bytes, dict(record.held), dict(record.released)
        )
        self.references.published[kept.model_id] = kept.attempt
        if record.alive:  # an empty entry would say that there is a segment file
            self.references.alive[kept.model_id, kept.attempt] = mask_of(record.alive)
        self.bury(kept.model_id)
        return Effects()

    @apply.register
    def _(self, record: Tombstone) -> Effects:
        if self.find(record.model) is not None:
            raise CorruptRecord(f"the head names {record.model!r} twice", record=record)
        self.tombstones[record.model] = record
        return Effects()

    def head(self) -> list[Record]:
        """Return records that recreate this state exactly."""
        records: list[Record] = [Generation(self.generation, self.floor)]
        records += [LabelEnded(label, tick) for label, tick in self.ended_labels.items()]
        records += self.tombstones.values()
        for model_id, model in self.models.items():
            alive = numbers_in(self.references.there(model_id))
            records.append(
                Kept(model.record, model.state, model.file_bytes, alive, dict(model.held), dict(model.released))
            )
        records += [staged for attempts in self.staged.values() for staged in attempts.values()]
        records += [Aborted(model, attempt) for model, attempts in self.fences.items() for attempt in sorted(attempts)]
        # `Staged` records restore the bits of staged models on their own tensors; all other bits need a record.
        # They come last, since bits on tensors that are not there are refused.
        for owner, claim, mask in self.references:
            if claim[0] != owner or self.references.published.get(owner) == claim[1]:
                records.append(Referred(owner, *claim, numbers_in(mask)))
        return records

    def holders(self, label: str, tick: Tick) -> dict[ModelId, bool]:
        """Return published models with a label added before `tick` -> whether it is their only label."""
        return {
            model_id: len(model.held) == 1
            for model_id, model in self.models.items()
            if model.state == "published" and model.held.get(label, tick) < tick
        }

    def retirement(self, model_id: ModelId) -> Retirement:
        """Return the references that a retiring model has to drop at other owners."""
        record = self._model(model_id).record
        return Retirement(model_id, record.attempt, record.inherited)

    def _of_this_generation(self, labels: Mapping[str, Tick]) -> dict[str, Tick]:
        return {label: tick for label, tick in labels.items() if tick.generation >= self.generation}

    def _release(self, model: Model, labels: Mapping[str, Tick]) -> None:
        for label in labels:
            model.held.pop(label, None)
        model.released |= self._of_this_generation(labels)

    def _model(self, model_id: ModelId) -> Model:
        model = self.models.get(model_id)
        if model is None:
            raise CorruptRecord(f"the journal changes {model_id!r}, which was never published", model_id=model_id)
        return model

    def bury(self, model_id: ModelId) -> None:
        """Replace a retired model by its tombstone, if none of its tensors is stored any more."""
        model = self.models.get(model_id)
        if model is not None and model.state == "retired" and not self.references.there(model_id):
            self.tombstones[model_id] = Tombstone.of(model.record)
            del self.models[model_id], self.references.published[model_id]

    def _unstage(self, model: ModelId, attempt: Attempt) -> dict[Segment, int]:
        attempts = self.staged.get(model, {})
        if attempts.pop(attempt, None) is None:
            return {}
        if not attempts:
            del self.staged[model]
        return self.references.remove(model, (model, attempt), self.references.of(model, (model, attempt)))

    def _retire(self, model_id: ModelId, labels: Mapping[str, Tick]) -> Effects:
        model = self._model(model_id)
        self._release(model, labels)
        model.state = "retiring"
        own = (model_id, model.record.attempt)
        gone = self.references.remove(model_id, own, self.references.of(model_id, own))
        return _freed(gone, self.references, (model_id,), (self.retirement(model_id),))


def _freed(
    gone: Mapping[Segment, int],
    references: References,
    unpublished: Iterable[ModelId] = (),
    retire: Iterable[Retirement] = (),
) -> Effects:
    return Effects(
        freed={segment: numbers_in(mask) for segment, mask in gone.items()},
        segments=tuple(segment for segment in gone if segment not in references.alive),
        unpublished=tuple(unpublished),
        retire=tuple(retire),
    )
