"""Admission of transfers to a provider's memory, without I/O, so that tests can try every order of arrival.

A transfer asks once for all the memory that it will need, before any byte is sent: a waiting transfer holds nothing, so
there is no deadlock. Memory is granted first come, first served, so that small transfers can't starve a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

FORGOTTEN_AFTER_S = 300.0
"""Time after which a silent transfer loses its memory, in seconds: the writer has died, or sends all again on its
put."""
ABANDONED_AFTER_S = 30.0
"""Time after which a waiting transfer that no longer asks leaves the queue, in seconds, so that others need not wait
behind it."""


@dataclass
class Share:
    """Memory that one transfer holds, or waits for.

    Parameters
    ----------
    nbytes:
        Its size in bytes.
    since, touched:
        Times of its first request and of its last sign of life, in seconds of one clock.
    """

    nbytes: int
    since: float
    touched: float


class TransferMemory:
    """A limited amount of memory that transfers share.

    Parameters
    ----------
    limit_bytes:
        Limit of all transfers together. A larger transfer is never granted, unless `lends_alone`.
    lends_alone:
        Whether a larger transfer is granted while no other holds memory.
    """

    def __init__(self, limit_bytes: int, *, lends_alone: bool = False) -> None:
        self.limit_bytes = limit_bytes
        self.lends_alone = lends_alone
        self.moved = 0.0
        """Time at which a transfer was last granted memory, used it, or gave it back."""
        self._held: dict[Hashable, Share] = {}
        self._waiting: dict[Hashable, Share] = {}  # in the order of asking

    @property
    def held_bytes(self) -> int:
        """Bytes that transfers hold."""
        return sum(share.nbytes for share in self._held.values())

    def bytes_of(self, key: Hashable) -> int:
        """Return the bytes that a transfer holds; 0 if it waits or is unknown."""
        return self._held[key].nbytes if key in self._held else 0

    def ask(self, key: Hashable, nbytes: int, now: float) -> bool:
        """Request memory for a transfer, or ask again; a transfer keeps its place in the queue as long as it asks.

        Returns
        -------
        Whether the memory is granted.
        """
        before = self._held.get(key) or self._waiting.get(key)
        if before is not None and before.nbytes != nbytes:
            self.give_back(key, now)  # another transfer under the same key
            before = None
        if before is None:
            self._waiting[key] = Share(nbytes, now, now)
        else:
            before.touched = now
        self._sweep(now)
        return key in self._held

    def touch(self, key: Hashable, now: float) -> None:
        """Record progress of a transfer that holds memory."""
        self._held[key].touched = self.moved = now

    def waits_in_vain_s(self, key: Hashable, now: float) -> float:
        """Return the seconds that a transfer has waited without progress of any other; 0 if it does not wait."""
        share = self._waiting.get(key)
        return 0.0 if share is None else now - max(share.since, self.moved)

    def give_back(self, key: Hashable, now: float) -> bool:
        """End a transfer that holds memory or waits; return whether there was one."""
        waited = self._waiting.pop(key, None) is not None
        held = self._held.pop(key, None) is not None
        if held:
            self.moved = now
        if held or waited:
            self._grant(now)
        return held or waited

    def give_back_all(self, of: Callable[[Hashable], bool], now: float) -> bool:
        """End all transfers whose key satisfies a predicate; return whether there were any."""
        found = [key for key in [*self._held, *self._waiting] if of(key)]
        return sum(self.give_back(key, now) for key in found) > 0

    def forgotten(self, now: float) -> list[Hashable]:
        """Return the transfers that hold memory and have been silent for `FORGOTTEN_AFTER_S`."""
        return [key for key, share in self._held.items() if now - share.touched > FORGOTTEN_AFTER_S]

    def _sweep(self, now: float) -> None:
        for key in self.forgotten(now):
            self.give_back(key, now)
        for key, share in list(self._waiting.items()):
            if now - share.touched > ABANDONED_AFTER_S:
                del self._waiting[key]
        self._grant(now)

    def _grant(self, now: float) -> None:
        """Grant memory to waiting transfers, in order, until the first one that does not fit."""
        taken = self.held_bytes
        for key, share in list(self._waiting.items()):
            alone = self.lends_alone and not self._held
            if taken + share.nbytes > self.limit_bytes and not alone:
                return
            del self._waiting[key]
            self._held[key] = share
            share.touched = self.moved = now
            taken += share.nbytes
