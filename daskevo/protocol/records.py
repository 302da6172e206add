"""Records of a shard's journal, one dataclass per kind of change. Replaying them in order recreates the shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args

from daskevo.errors import CorruptRecord, InvalidInput, LaterVersion
from daskevo.protocol.codec import (
    COUNT,
    LABEL,
    LABELS,
    METRICS,
    MODEL,
    NUMBER,
    NUMBERS,
    OBJECTIVE,
    SCOPE,
    TICK,
    Codec,
    Wire,
    choice,
    decode_kind,
    optional,
    part,
    wire_kinds,
)
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerMap
from daskevo.protocol.replies import ModelState
from daskevo.types import JSON, Attempt, ModelId, Tick

T = TypeVar("T")

BEGINNING = Tick(0, 0)
"""A tick before all ticks of coordinators."""


class Record(Wire):
    """Base of the journal's records."""

    __slots__ = ()


@dataclass(frozen=True)
class Generation(Record):
    """The shard was opened under this generation.

    Staged parts, fences and ticks of released labels of older generations are removed. `floor`: the shard's content
    from before this tick is lost, so it gives no verdict about older attempts.
    """

    generation: Annotated[int, COUNT]
    floor: Annotated[Tick, TICK] = BEGINNING


@dataclass(frozen=True)
class _BitsOf(Record):
    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]


@dataclass(frozen=True)
class Referred(_BitsOf):
    """Bits of (model, attempt) on `owner`'s tensors were added."""


@dataclass(frozen=True)
class Dropped(_BitsOf):
    """Bits of (model, attempt) on `owner`'s tensors were removed."""


@dataclass(frozen=True)
class Staged(Record):
    """A model's record and segment arrived, with bits on its own tensors."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    file_bytes: Annotated[int | None, optional(COUNT)]


@dataclass(frozen=True)
class Published(Record):
    """A staged model became visible with its first labels; without any, it was retired at once."""

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class Aborted(Record):
    """(model, attempt) can never be staged or published again; its staged parts were freed."""

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class LabelHeld(Record):
    """A label was added to a published model."""

    model: Annotated[ModelId, MODEL]
    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class LabelsReleased(Record):
    """Labels were removed from a published model, others remain."""

    model: Annotated[ModelId, MODEL]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class Retiring(Record):
    """The last labels were removed, and the model's bits on its own tensors with them."""

    model: Annotated[ModelId, MODEL]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class LabelEnded(Record):
    """A label was removed from all models of the shard; adding it with a lower tick has no effect."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Retired(Record):
    """The model's bits at other owners are removed, too; tensors of it that others use stay."""

    model: Annotated[ModelId, MODEL]


@dataclass(frozen=True)
class Kept(Record):
    """Only in the head of a journal: one model in its present state."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    state: Annotated[ModelState, choice(*get_args(ModelState))]
    file_bytes: Annotated[int | None, optional(COUNT)]
    alive: Annotated[frozenset[int], NUMBERS]
    """Own tensors that are still stored."""
    held: Annotated[dict[str, Tick], LABELS]
    released: Annotated[dict[str, Tick], LABELS]


# With slots: a repository has more and more of them, all in memory.
@dataclass(frozen=True, slots=True)
class Tombstone(Record):
    """Only in the head of a journal: a retired model without stored tensors.

    It is kept for ever, since an id is never used again. Late messages are compared with its attempt, a task that runs
    again gets its metrics, and its ancestor is needed for lineage.
    """

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    scope: Annotated[str, SCOPE]
    created: Annotated[Tick, TICK]
    objective: Annotated[str | None, optional(OBJECTIVE)]
    quality: Annotated[float | None, optional(NUMBER)]
    metrics: Annotated[dict[str, JSON], METRICS]
    step: Annotated[int, COUNT]
    parent: Annotated[ModelId | None, optional(MODEL)]
    ancestor: Annotated[ModelId | None, optional(MODEL)]

    @classmethod
    def of(cls, record: ModelRecord) -> Tombstone:
        """Return the tombstone of a model."""
        return cls(record.model_id, *(getattr(record, name) for name in cls.__slots__[1:]))

    @property
    def record(self) -> ModelRecord:
        """The tombstone as a record of a model that owns and uses no tensors."""
        facts = {name: getattr(self, name) for name in self.__slots__[1:]}
        return ModelRecord(model_id=self.model, graph=None, owner_map=_NOTHING, own={}, **facts)


_NOTHING = OwnerMap(())

_KINDS = wire_kinds(
    Generation,
    Referred,
    Dropped,
    Staged,
    Published,
    Aborted,
    LabelHeld,
    LabelsReleased,
    Retiring,
    LabelEnded,
    Retired,
    Kept,
    Tombstone,
)


@dataclass(frozen=True)
class Unreadable(Record):
    """Only in memory: replaces a record that can't be read, with those of its facts that can.

    `rest`: the model's record with the fields about its tensors, if these can be read.
    """

    kind: type[Record]
    model: ModelId | None
    attempt: Attempt | None
    rest: ModelRecord | None
    found: str


def records_from_json(rows: Iterable[object]) -> list[Record]:
    """Decode the records of a journal with valid checksums; those that can't be decoded become `Unreadable`.

    Raises
    ------
    LaterVersion
        If a later version of daskevo has written one of them.
    CorruptRecord
        If a record can't be decoded and concerns more than one model.
    """
    return [_record_or_what_it_is_about(row) for row in rows]


def _record_or_what_it_is_about(row: object) -> Record:
    try:
        return record_from_json(row)
    except LaterVersion:
        raise
    except CorruptRecord as error:
        kind = row.get("kind") if isinstance(row, Mapping) else None
        if not isinstance(row, Mapping) or not isinstance(kind, str):
            raise
        record = row.get("record")
        about = record if isinstance(record, Mapping) else row
        model = _read_or_none(MODEL, about.get("model_id", about.get("model")))
        # A reader's reservation names no model, and nobody else depends on it.
        if model is None and kind != "Referred":
            raise
        attempt = _read_or_none(TICK, about.get("attempt"))
        rest = _read_or_none(part(ModelRecord), {**about, **_UNSAID}) if "own" in about else None
        return Unreadable(_KINDS[kind], model, attempt, rest, error.message)  # type: ignore[arg-type]


_UNSAID: dict[str, JSON] = dict.fromkeys(("graph", "objective", "quality", "parent", "ancestor", "extra"))
_UNSAID |= {"metrics": {}, "step": 0}
"""Empty values of those fields of a model's record that don't concern its tensors."""


def _read_or_none(codec: Codec[T], value: Any) -> T | None:
    try:
        return codec.decode(value)
    except (CorruptRecord, InvalidInput):
        return None


def record_from_json(value: object) -> Record:
    """Decode a record of any kind; raise LaterVersion for unknown kinds, CorruptRecord for other values."""
    record: Record = decode_kind(value, _KINDS, "journal record", kept=True)
    return record
