"""Providers that did not answer lately, for which callers that can do without an answer wait only a moment.

A process that is suspended, swaps, or has lost its network keeps its connections and shards until Dask declares it
dead, which takes minutes. Meanwhile queries use the other providers, and their answers are marked as partial.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

SILENCE_S = 10.0
"""Time for which a provider counts as silent after a time-out, in seconds, unless it answers before."""
SILENT_TIMEOUT_S = 0.25
"""Longest wait for a silent provider in calls that can do without it, in seconds: enough to notice that it is back."""
_LEAST_S = 1.0
"""Shortest time-out that makes a provider count as silent, in seconds; shorter ones may have other reasons."""


class SuspectProviders:
    """Addresses of providers that did not answer this process lately.

    Parameters
    ----------
    clock:
        Returns the time in seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def __contains__(self, address: str) -> bool:
        until = self._until.get(address)
        if until is None:
            return False
        if until <= self._clock():
            del self._until[address]
            return False
        return True

    def patience(self, address: str, timeout_s: float) -> float:
        """Return how long to wait for a dispensable answer, in seconds."""
        return min(timeout_s, SILENT_TIMEOUT_S) if address in self else timeout_s

    def heard(self, address: str) -> None:
        """Record that a provider has answered, with a value or an error."""
        self._until.pop(address, None)

    def missed(self, address: str, waited_s: float) -> None:
        """Record that a provider has not answered within `waited_s` seconds."""
        if waited_s >= _LEAST_S:
            self._until[address] = self._clock() + SILENCE_S
