"""What shards are asked: one dataclass per request of the protocol.

Every message names its attempt or tick and changes sets, so that a lost, late, repeated or doubled one does no harm;
senders repeat the same message. A message goes to the shard of its `addressee`; without one, to every shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from daskevo.errors import InvalidInput
from daskevo.protocol.codec import (
    COUNT,
    LABEL,
    LABELS,
    MODEL,
    NUMBERS,
    TICK,
    Wire,
    decode_kind,
    optional,
    part,
    wire_kinds,
)
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import Attempt, ModelId, Tick


class Message(Wire):
    """Base of the requests to a shard."""

    __slots__ = ()

    @property
    def addressee(self) -> ModelId | None:
        """The model whose shard gets this message; None: every shard does."""
        return None


@dataclass(frozen=True)
class _ToHome(Message):
    model: Annotated[ModelId, MODEL]

    @property
    def addressee(self) -> ModelId:
        return self.model


@dataclass(frozen=True)
class Open(_ToHome):
    """Ask for a published model's record. Needs no fence, protects nothing. -> Opened | Refused."""


@dataclass(frozen=True)
class Status(_ToHome):
    """Ask where a model stands, whatever its state. -> Standing."""


@dataclass(frozen=True)
class Refer(Message):
    """Reserve tensors of `owner` for (model, attempt), flushed before the answer. -> Reserved | Refused (`gone`).

    `model` is None under a reader's attempt. The edge reads the tensors in the same round trip.
    """

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]

    @property
    def addressee(self) -> ModelId:
        return self.owner


@dataclass(frozen=True)
class Restore(Message):
    """Give a published model back bits at `owner`, of a shard that was restored from an older copy. -> Ok | Refused.

    A repair sends it, after it has asked home. Unlike `Refer` it names an attempt that is over; what is not used after
    all goes with the next audit, as any bit of an attempt that is over.
    """

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]

    @property
    def addressee(self) -> ModelId:
        return self.owner


@dataclass(frozen=True)
class Drop(Message):
    """Give back bits of (model, attempt) at `owner`: these numbers, or all (None). -> Ok."""

    owner: Annotated[ModelId, MODEL]
    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int] | None, optional(NUMBERS)] = None

    @property
    def addressee(self) -> ModelId:
        return self.owner


@dataclass(frozen=True)
class DropAttempt(Message):
    """Give back all bits of (model, attempt) at every owner of a shard; goes to every shard. -> Ok."""

    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class Stage(Message):
    """Bring a model's record and segment to its home, invisible yet. -> Ok | Refused."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    file_bytes: Annotated[int | None, optional(COUNT)] = None
    """Size of the segment file; None if the tensors are in memory only, or there are none."""

    @property
    def addressee(self) -> ModelId:
        return self.record.model_id


@dataclass(frozen=True)
class Publish(_ToHome):
    """Make a staged model visible with its first labels: first publish wins. -> Verdict | Refused."""

    attempt: Annotated[Attempt, TICK]
    labels: Annotated[dict[str, Tick], LABELS]

    def __post_init__(self) -> None:
        if not self.labels:
            raise InvalidInput(
                "a model is published with at least one label: what nobody holds would be retired at once"
            )


@dataclass(frozen=True)
class Put(Message):
    """Stage and publish in one round trip. -> Verdict | Refused."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    labels: Annotated[dict[str, Tick], LABELS]
    file_bytes: Annotated[int | None, optional(COUNT)] = None

    def __post_init__(self) -> None:
        if not self.labels:
            raise InvalidInput(
                "a model is published with at least one label: what nobody holds would be retired at once"
            )

    @property
    def addressee(self) -> ModelId:
        return self.record.model_id


@dataclass(frozen=True)
class Abort(_ToHome):
    """End (model, attempt) unless it is published; also if home never heard of it: the fence. -> Verdict."""

    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class Hold(_ToHome):
    """Add a label; per label the highest tick wins. -> Labelled | Refused (retiring, retired, unknown)."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Release(_ToHome):
    """Take a label away; the last one retires the model. -> Labelled | Refused (unknown)."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class ReleaseLabel(Message):
    """Take a label from all models of a shard with one tick; goes to every shard. -> LabelGone."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Retire(_ToHome):
    """Take all labels away with one tick; labels held under a higher tick stay. -> Labelled | Refused (unknown)."""

    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class FinishRetirement(_ToHome):
    """Say that a retiring model's bits at all other owners are dropped (home's provider to itself). -> Ok."""

    attempt: Annotated[Attempt, TICK]


_KINDS = wire_kinds(
    Open,
    Status,
    Refer,
    Restore,
    Drop,
    DropAttempt,
    Stage,
    Publish,
    Put,
    Abort,
    Hold,
    Release,
    ReleaseLabel,
    Retire,
    FinishRetirement,
)


def message_from_wire(value: object) -> Message:
    """Read any message; raises CorruptRecord on anything else."""
    message: Message = decode_kind(value, _KINDS, "message")
    return message
