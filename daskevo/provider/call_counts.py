"""Counters of a provider's calls: their number, their items, and a histogram of their durations.

Own code: every provider counts, also without `prometheus_client`, and the dashboard compares two looks at the counts.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field

from daskevo.types import JSON

BOUNDS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the histogram's buckets, in seconds; one more bucket counts longer calls."""


@dataclass
class Count:
    """Counter of calls of one kind.

    Parameters
    ----------
    items:
        Sum of the calls' items: queries of batches, bytes of puts.
    seconds:
        Sum of the calls' durations at the provider, from the arrival of the message to its answer.
    within:
        Calls in each bucket: longer than the previous of `BOUNDS_S`, up to this one; the last has all longer calls.
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
        """Return a context manager that counts its block as a call, also if the block raises."""
        return Timed(self, items)

    def to_wire(self) -> list[JSON]:
        """Return ``[calls, items, seconds, within]``."""
        return [self.calls, self.items, self.seconds, list(self.within)]


class Timed:
    """One running call; `items` may be changed until it ends."""

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
    """All counters of one provider.

    Parameters
    ----------
    queries:
        Messages with queries for best matches; items are the queries in them.
    puts:
        Models that were put; items are the bytes that they had to store.
    reservations:
        References that were reserved at one owner, with the tensors sent in the answer; items are tensors.
    reads:
        Further reads of reserved tensors; items are parts of tensors.
    """

    queries: Count = field(default_factory=Count)
    puts: Count = field(default_factory=Count)
    reservations: Count = field(default_factory=Count)
    reads: Count = field(default_factory=Count)

    def to_wire(self) -> dict[str, JSON]:
        """Return each count by its name."""
        return {name: getattr(self, name).to_wire() for name in self.__dataclass_fields__}
