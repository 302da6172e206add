"""Replies of shards: small dataclasses with the result of a message, or the reason why it was refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from daskevo.protocol.codec import (
    LABEL,
    MODEL,
    NUMBERS,
    TICK,
    USES,
    Wire,
    choice,
    decode_kind,
    optional,
    part,
    sequence,
    wire_kinds,
)
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import Attempt, ModelId

ModelState = Literal["published", "retiring", "retired"]
VerdictState = Literal["aborted", "published", "retiring", "retired", "lost"]
Reason = Literal[
    "unknown",  # no model of that id was published here
    "gone",  # a wanted tensor is not there (any more)
    "itself",  # a model can't reserve tensors of its own id
    "over",  # the generation of the attempt, or of the label's tick, is past; or the attempt's shard was lost since
    "aborted",  # the attempt was aborted
    "not staged",  # publish without stage: its record was lost
    "differs",  # the attempt staged something else before
    "published",  # another attempt of this id won
    "retiring",
    "retired",
]
StandingState = Literal["unknown", "staged", "published", "retiring", "retired"]


class Reply(Wire):
    """Base of a shard's answers."""

    __slots__ = ()


@dataclass(frozen=True)
class Ok(Reply):
    """The message was carried out, now or before."""


@dataclass(frozen=True)
class Refused(Reply):
    """Nothing was changed.

    `attempt` and `record` belong to the model that has the id already, so that the losing attempt can return the
    winner's metrics; `missing` are the numbers of tensors that are gone.
    """

    reason: Annotated[Reason, choice(*get_args(Reason))]
    attempt: Annotated[Attempt | None, optional(TICK)] = None
    record: Annotated[ModelRecord | None, optional(part(ModelRecord))] = None
    missing: Annotated[frozenset[int], NUMBERS] = frozenset()


@dataclass(frozen=True)
class Opened(Reply):
    """A published model's record and the labels that keep it."""

    record: Annotated[ModelRecord, part(ModelRecord)]
    labels: Annotated[tuple[str, ...], sequence(LABEL)] = ()


@dataclass(frozen=True)
class Reserved(Reply):
    """The tensors are stored and stay reserved; (owner, attempt) names the segment to read them from."""

    owner: Annotated[ModelId, MODEL]
    attempt: Annotated[Attempt, TICK]


@dataclass(frozen=True)
class Verdict(Reply):
    """The final state of (model, attempt), which its home shard alone decides.

    ``lost``: the home shard has lost its records of that attempt, and refuses it for good; only a repair drops its
    references.
    """

    state: Annotated[VerdictState, choice(*get_args(VerdictState))]
    attempt: Annotated[Attempt, TICK]
    uses: Annotated[dict[ModelId, frozenset[int]], USES] = field(default_factory=dict)
    """Tensors that the model's map uses at other owners, if it is published or retiring."""


@dataclass(frozen=True)
class Labelled(Reply):
    """The model's present labels; without any, it is retiring or retired."""

    state: Annotated[ModelState, choice(*get_args(ModelState))]
    labels: Annotated[tuple[str, ...], sequence(LABEL)] = ()


@dataclass(frozen=True)
class LabelGone(Reply):
    """Models that had the label until now; those of them that had no other are retiring."""

    released: Annotated[tuple[ModelId, ...], sequence(MODEL)] = ()
    retiring: Annotated[tuple[ModelId, ...], sequence(MODEL)] = ()


@dataclass(frozen=True)
class Standing(Reply):
    """The status of a model; `record` is a tombstone if it was retired."""

    state: Annotated[StandingState, choice(*get_args(StandingState))]
    record: Annotated[ModelRecord | None, optional(part(ModelRecord))] = None
    labels: Annotated[tuple[str, ...], sequence(LABEL)] = ()
    staged: Annotated[tuple[Attempt, ...], sequence(TICK)] = ()
    """Attempts that are staged and neither published nor aborted."""


_KINDS = wire_kinds(Ok, Refused, Opened, Reserved, Verdict, Labelled, LabelGone, Standing)


def reply_from_wire(value: object) -> Reply:
    """Decode a reply of any kind; raise CorruptRecord for other values."""
    reply: Reply = decode_kind(value, _KINDS, "reply")
    return reply
