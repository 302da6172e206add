"""Steps of the protocol's scripts: what a script yields, and what it is sent back.

A script (`daskevo.protocol.scripts`) does no I/O. `daskevo.client.run_script` carries its steps out with asyncio; the
model checker of the tests and the simulator carry out the steps of the same scripts in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from daskevo.protocol.messages import Drop, Message
from daskevo.protocol.references import Segment
from daskevo.types import Attempt, ModelId

T = TypeVar("T")


@dataclass(frozen=True)
class Together:
    """Messages to shards that are sent at the same time, at least one. -> An answer for each, in order.

    An answer is a reply, or what there is instead of one: an error, or None.
    """

    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Begin:
    """Begin an attempt; what `Find` looks for may be looked for meanwhile, since that changes nothing. -> It."""


@dataclass(frozen=True)
class Find:
    """Find the ancestor to try next. -> Numbers of the tensors to inherit by owner; none: nothing to inherit."""


@dataclass(frozen=True)
class Reserve:
    """Reserve tensors at all their owners at the same time, and read them. -> Whether all are reserved."""

    model: ModelId | None
    attempt: Attempt
    wanted: Mapping[ModelId, Collection[int]]


@dataclass(frozen=True)
class End:
    """Tell the coordinator that an attempt is over; if it is not `settled`, the coordinator settles it. -> None."""

    attempt: Attempt
    settled: bool


@dataclass(frozen=True)
class EndInBackground:
    """Drop references and end an attempt that needs no settling, at the same time; nobody waits for that. -> None."""

    attempt: Attempt
    drops: tuple[Drop, ...] = ()


@dataclass(frozen=True)
class ToTheEnd:
    """A script that goes on to its end even if who waits for it is interrupted. -> What it returns."""

    script: Script[Any]


@dataclass(frozen=True)
class Withdraw:
    """Remove the segment file that this attempt's writer has written, if it has. -> None."""

    model: ModelId
    attempt: Attempt


@dataclass(frozen=True)
class OnOwnShard:
    """Messages that a provider carries out on the shard that the script works for. -> None, or the error instead."""

    messages: tuple[Message, ...]


@dataclass(frozen=True)
class TakeSnapshot:
    """-> The `ShardSnapshot` of the shard that the script works for; its files are listed before its records."""


@dataclass(frozen=True)
class DeleteFiles:
    """Delete segment files of the shard that the script works for, unless a record names them by now. -> None."""

    files: tuple[Segment, ...]


@dataclass(frozen=True)
class AreOver:
    """Ask the coordinator about attempts. -> Those that are over."""

    attempts: tuple[Attempt, ...]


@dataclass(frozen=True)
class Calculate:
    """Work without I/O that may take long: in a thread, where others would wait for it. -> Its result."""

    work: Callable[[], Any]


@dataclass(frozen=True)
class IsServed:
    """-> Whether this provider still serves the shard that the script works for."""


@dataclass(frozen=True)
class TryLater:
    """Wait before the next try; `trouble` is the answer that makes it necessary."""

    trouble: object


Step = (
    Together
    | Begin
    | Find
    | Reserve
    | End
    | EndInBackground
    | ToTheEnd
    | Withdraw
    | OnOwnShard
    | TakeSnapshot
    | DeleteFiles
    | AreOver
    | Calculate
    | IsServed
    | TryLater
)

Script = Generator[Step, Any, T]
