"""Which attempts are over, by the coordinator's word: asked for many at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from daskevo.client.directory import CALL_TIMEOUT_S
from daskevo.client.session import Session
from daskevo.types import Attempt

T = TypeVar("T")

_ATTEMPTS_AT_ONCE = 4096
"""In one message: each takes its reader some milliseconds."""


async def over_among(session: Session, attempts: list[Attempt]) -> frozenset[Attempt]:
    """Ask the coordinator which attempts are over."""
    over: set[Attempt] = set()
    for some in batches(attempts, _ATTEMPTS_AT_ONCE):
        answers = await session.transport.coordinator(
            "over", timeout_s=CALL_TIMEOUT_S, attempts=[list(attempt) for attempt in some]
        )
        over.update(attempt for attempt, is_over in zip(some, answers, strict=True) if is_over)
    return frozenset(over)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into pieces of that size, the last one shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
