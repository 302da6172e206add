"""Messages to shards, one dataclass per request of the protocol.

Every message names its attempt or tick, and changes sets. So a lost, late, repeated or duplicated message does no harm,
and senders repeat the same message. It goes to the shard of its `addressee`, or to all shards if it has none.
"""

from __future__ import annotations

from collections.abc import Collection
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
        """The model whose home shard gets this message; None: all shards get it."""
        return None


@dataclass(frozen=True)
class _ToHome(Message):
    model: Annotated[ModelId, MODEL]

    @property
    def addressee(self) -> ModelId:
        return self.model


@dataclass(frozen=True)
class _ToOwner(Message):
    owner: Annotated[ModelId, MODEL]

    @property
    def addressee(self) -> ModelId:
        return self.owner


@dataclass(frozen=True)
class _WithRecord(Message):
    record: Annotated[ModelRecord, part(ModelRecord)]

    @property
    def addressee(self) -> ModelId:
        return self.record.model_id


@dataclass(frozen=True)
class Open(_ToHome):
    """Ask for a published model's record; this reserves nothing, and the epoch is not checked. -> Opened | Refused."""


@dataclass(frozen=True)
class Status(_ToHome):
    """Ask for the status of a model in any state. -> Standing."""


@dataclass(frozen=True)
class Refer(_ToOwner):
    """Reserve tensors of `owner` for (model, attempt), flushed before the answer. -> Reserved | Refused (`gone`).

    `model` is None for a reader's attempt. The provider returns the tensors in the same round trip.
    """

    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]


@dataclass(frozen=True)
class Restore(_ToOwner):
    """Restore bits of a published model at `owner`, in a shard that was restored from an older copy. -> Ok | Refused.

    A repair sends it after it has asked the home shard. Unlike in `Refer`, the attempt is over; if the bits turn out to
    be unused, the next audit removes them like all bits of ended attempts.
    """

    model: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int], NUMBERS]


@dataclass(frozen=True)
class Drop(_ToOwner):
    """Remove bits of (model, attempt) at `owner`: these numbers, or all (None). -> Ok."""

    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]
    numbers: Annotated[frozenset[int] | None, optional(NUMBERS)] = None


@dataclass(frozen=True)
class DropAttempt(Message):
    """Remove all bits of (model, attempt) at every owner of a shard; goes to all shards. -> Ok."""

    model: Annotated[ModelId | None, optional(MODEL)]
    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class Stage(_WithRecord):
    """Store a model's record and segment in its home shard, not visible yet. -> Ok | Refused."""

    file_bytes: Annotated[int | None, optional(COUNT)] = None
    """Size of the segment file in bytes; None if the tensors are in memory only, or there are none."""


@dataclass(frozen=True)
class Publish(_ToHome):
    """Make a staged model visible with its first labels; the first publish of an id wins. -> Verdict | Refused."""

    attempt: Annotated[Attempt, TICK]
    labels: Annotated[dict[str, Tick], LABELS]

    def __post_init__(self) -> None:
        _check_held(self.labels)


@dataclass(frozen=True)
class Put(_WithRecord):
    """Stage and publish in one round trip. -> Verdict | Refused."""

    labels: Annotated[dict[str, Tick], LABELS]
    file_bytes: Annotated[int | None, optional(COUNT)] = None

    def __post_init__(self) -> None:
        _check_held(self.labels)


def _check_held(labels: Collection[str]) -> None:
    if not labels:
        raise InvalidInput("a model is published with at least one label: what nobody holds would be retired at once")


@dataclass(frozen=True)
class Abort(_ToHome):
    """End (model, attempt) unless it is published, also if it is unknown, to fence a late put. -> Verdict."""

    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class Hold(_ToHome):
    """Add a label; for each label, the highest tick wins. -> Labelled | Refused (retiring, retired, unknown)."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Release(_ToHome):
    """Remove a label; removing the last one retires the model. -> Labelled | Refused (unknown)."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class ReleaseLabel(Message):
    """Remove a label from all models of a shard with one tick; goes to all shards. -> LabelGone."""

    label: Annotated[str, LABEL]
    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class Retire(_ToHome):
    """Remove all labels with one tick; labels added with a higher tick stay. -> Labelled | Refused (unknown)."""

    tick: Annotated[Tick, TICK]


@dataclass(frozen=True)
class FinishRetirement(_ToHome):
    """Report that a retiring model's bits at all other owners are dropped; a provider's message to itself. -> Ok."""

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
    """Decode a message of any kind; raise CorruptRecord for other values."""
    message: Message = decode_kind(value, _KINDS, "message")
    return message
