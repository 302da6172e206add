"""Time of calls, and what many of them say together."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's garbage collector out of what is measured, for every rival alike."""
    was = gc.isenabled()
    gc.collect(1)  # the young ones: looking through all that Keras and TensorFlow keep takes half a second
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def timed(function: Callable[[], Any], repeat: int = 5, before: Callable[[], Any] | None = None) -> list[float]:
    """Return the seconds that each of `repeat` calls takes.

    Parameters
    ----------
    before:
        Called before each, not timed: puts back what the call changes.
    """
    found = []
    with undisturbed():
        for _ in range(repeat):
            if before is not None:
                before()
            started = time.perf_counter()
            function()
            found.append(time.perf_counter() - started)
    return found


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values don't exceed.

    Examples
    --------
    >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5), quantile([3.0, 1.0, 2.0, 4.0], 0.99)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    # Rounded, since 0.07 * 100 is a hair above 7.
    place = -int(-round(share * len(ordered), 9) // 1)
    return ordered[min(max(place, 1), len(ordered)) - 1]
