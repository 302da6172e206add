"""What a provider has been asked so far: how often, about how much, how long it took, how many took how long."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field

from daskevo.types import JSON

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Seconds up to which calls are counted together; one more count has those that took longer."""


@dataclass
class Count:
    """Calls of one kind.

    Parameters
    ----------
    items:
        What they were about: queries of batches, bytes of puts.
    seconds:
        Of all calls, as the provider sees them: from a message's arrival to its answer.
    within:
        How many calls took up to each of `BOUNDS_S` and longer than the one before; the last: longer than all.
    """

    calls: int = 0
    items: int = 0
    seconds: float = 0.0
    within: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))

    def add(self, seconds: float, items: int = 1) -> None:
        """Count a call.

        Examples
        --------
        >>> count = Count()
        >>> count.add(0.0007, items=3)
        >>> count.calls, count.items, count.within[:3]
        (1, 3, [0, 1, 0])
        """
        self.calls += 1
        self.items += items
        self.seconds += seconds
        self.within[bisect_left(BOUNDS_S, seconds)] += 1

    def timed(self, items: int = 1) -> Timed:
        """Count what a ``with`` block does, however it ends."""
        return Timed(self, items)

    def to_wire(self) -> list[JSON]:
        """Return ``[calls, items, seconds, within]``."""
        return [self.calls, self.items, self.seconds, list(self.within)]


class Timed:
    """One call that is under way; `items` may be changed until it ends."""

    __slots__ = ("_began", "_count", "items")

    def __init__(self, count: Count, items: int) -> None:
        self._count = count
        self.items = items

    def __enter__(self) -> Timed:
        self._began = time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        self._count.add(time.perf_counter() - self._began, self.items)


@dataclass
class Tally:
    """All that is counted of one provider.

    Parameters
    ----------
    queries:
        Messages with queries for best matches; items are the queries in them.
    puts:
        Models that were put; items are the bytes that they had to store.
    reservations:
        References that were reserved at one owner, with the tensors handed out; items are tensors.
    reads:
        Further reads of what was reserved; items are parts of tensors.
    """

    queries: Count = field(default_factory=Count)
    puts: Count = field(default_factory=Count)
    reservations: Count = field(default_factory=Count)
    reads: Count = field(default_factory=Count)

    def to_wire(self) -> dict[str, JSON]:
        """Return each count by its name."""
        return {name: getattr(self, name).to_wire() for name in self.__dataclass_fields__}
