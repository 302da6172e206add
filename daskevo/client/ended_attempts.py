"""Ask the coordinator in batches which attempts are over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.session import Session
from daskevo.types import Attempt

T = TypeVar("T")

_ATTEMPTS_AT_ONCE = 4096
"""Most attempts in one message, which takes the coordinator some milliseconds."""


async def over_among(session: Session, attempts: Sequence[Attempt]) -> frozenset[Attempt]:
    """Return those of the attempts that are over according to the coordinator."""
    over: set[Attempt] = set()
    for some in batches(attempts, _ATTEMPTS_AT_ONCE):
        answers = await session.transport.coordinator(
            "over", timeout_s=CALL_TIMEOUT_S, attempts=[list(attempt) for attempt in some]
        )
        over.update(attempt for attempt, is_over in zip(some, answers, strict=True) if is_over)
    return frozenset(over)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split a sequence into batches of `size` items; the last one may be shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
