"""What a shard's journal holds: one dataclass per change. Replaying them in order recreates the shard."""

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
"""Before every tick that a coordinator gives."""


class Record(Wire):
    """Base of the journal's records."""

    __slots__ = ()


@dataclass(frozen=True)
class Generation(Record):
    """The shard was opened under this generation: staged parts, fences and ticks of released labels of older ones go.

    `floor`: the shard's content was lost before this tick; it says nothing about older attempts.
    """

    generation: Annotated[int, COUNT]
    floor: Annotated[Tick, TICK] = BEGINNING


@dataclass(frozen=True)
class Referred(Record):
    """Bits of (model, attempt) on `owner`'s tensors were added."""

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]


@dataclass(frozen=True)
class Dropped(Record):
    """Bits of (model, attempt) on `owner`'s tensors were taken away."""

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]


@dataclass(frozen=True)
class Staged(Record):
    """A model's record and segment arrived, with bits on its own tensors."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    file_bytes: Annotated[int | None, optional(COUNT)]


@dataclass(frozen=True)
class Published(Record):
    """A staged model became visible, with its first labels; without one, it was retired in the same moment."""

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class Aborted(Record):
    """(model, attempt) can never be staged or published again; its staged parts went."""

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
    """Labels were taken from a published model, others remain."""

    model: Annotated[ModelId, MODEL]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class Retiring(Record):
    """The last labels were taken away, and with them the model's bits on its own tensors."""

    model: Annotated[ModelId, MODEL]
    labels: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True)
class LabelEnded(Record):
    """A label was released on all models of the shard; holds of it with a lower tick are ignored."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Retired(Record):
    """The model's bits at other owners are gone too; what is stored of it is kept for others."""

    model: Annotated[ModelId, MODEL]


@dataclass(frozen=True)
class Kept(Record):
    """Head only: one model as it stands, with all it has been through."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    state: Annotated[ModelState, choice(*get_args(ModelState))]
    file_bytes: Annotated[int | None, optional(COUNT)]
    alive: Annotated[frozenset[int], NUMBERS]
    """Own tensors that are still stored."""
    held: Annotated[dict[str, Tick], LABELS]
    released: Annotated[dict[str, Tick], LABELS]


@dataclass(frozen=True, slots=True)
class Tombstone(Record):
    """Head only: a retired model of which nothing is stored any more. It stays for ever: its id is never used again.

    What late messages are held against (the attempt), what a task that runs again is answered (metrics), and lineage.
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
        """Return what stays of a model."""
        return cls(record.model_id, *(getattr(record, name) for name in cls.__slots__[1:]))

    @property
    def record(self) -> ModelRecord:
        """The same as a record that owns and uses nothing."""
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
    """In memory only: what stands in the place of a record that can't be read, with what it certainly says.

    `rest`: of a model's record that which tells its tensors, if that can be read.
    """

    kind: type[Record]
    model: ModelId | None
    attempt: Attempt | None
    rest: ModelRecord | None
    found: str


def records_from_json(rows: Iterable[object]) -> list[Record]:
    """Read the records of a journal, whose checksums are right; of one that can't be read, what it is about.

    Raises
    ------
    LaterVersion
        If a later version of daskevo has written one.
    CorruptRecord
        If one that can't be read is about no single model.
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
        if model is None and kind != "Referred":
            raise
        attempt = _read_or_none(TICK, about.get("attempt"))
        rest = _read_or_none(part(ModelRecord), {**about, **_UNSAID}) if "own" in about else None
        return Unreadable(_KINDS[kind], model, attempt, rest, error.message)  # type: ignore[arg-type]


_UNSAID: dict[str, JSON] = dict.fromkeys(("graph", "objective", "quality", "parent", "ancestor", "extra"))
_UNSAID |= {"metrics": {}, "step": 0}
"""What of a model's record says nothing of its tensors."""


def _read_or_none(codec: Codec[T], value: Any) -> T | None:
    try:
        return codec.decode(value)
    except (CorruptRecord, InvalidInput):
        return None


def record_from_json(value: object) -> Record:
    """Read any record; raises CorruptRecord on anything else, LaterVersion on one of an unknown kind."""
    record: Record = decode_kind(value, _KINDS, "journal record", kept=True)
    return record
