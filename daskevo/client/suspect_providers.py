"""Which providers gave no answer lately: who can do without one does not wait for it in full again and again.

A process that was stopped, swaps, or sits behind a broken switch keeps its connections and its shards until Dask calls
it dead, which takes minutes. Meanwhile a match asks the others, says that its answer is partial, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

SILENCE_S = 10.0
"""How long a provider counts as silent after it gave no answer in time, unless one comes before."""
SILENT_TIMEOUT_S = 0.25
"""Longest wait for one that is silent by who can do without it: long enough for a sign of life."""
_LEAST_S = 1.0
"""A shorter wait in vain says nothing of the provider."""


class Silence:
    """Providers that gave no answer lately, by address, as one process knows them.

    Parameters
    ----------
    clock:
        Seconds, monotonic.
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
        """Return how long to wait for an answer that isn't indispensable, in seconds."""
        return min(timeout_s, SILENT_TIMEOUT_S) if address in self else timeout_s

    def heard(self, address: str) -> None:
        """Note that an answer came, whatever it said."""
        self._until.pop(address, None)

    def missed(self, address: str, waited_s: float) -> None:
        """Note that none came in that time."""
        if waited_s >= _LEAST_S:
            self._until[address] = self._clock() + SILENCE_S
