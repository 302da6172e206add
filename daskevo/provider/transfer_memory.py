"""Who may use a provider's memory for a transfer, and who waits: pure, so that every order of arrival can be tried.

A transfer asks once, for all that it will take, before any of its bytes are sent: whoever waits holds nothing, so none
can wait for one another. Room is given in the order of asking: a large transfer isn't passed by small ones for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

FORGOTTEN_AFTER_S = 300.0
"""A writer that has room and has sent nothing for so long has died, or sends all again when it puts."""
ABANDONED_AFTER_S = 30.0
"""Who waits for room, and has not asked for so long, has gone: others need not wait behind it."""


@dataclass
class Share:
    """What one transfer takes, or wants to.

    Parameters
    ----------
    nbytes:
        All of it.
    since, touched:
        When it asked first, and when something was heard of it last; seconds of one clock.
    """

    nbytes: int
    since: float
    touched: float


class TransferMemory:
    """A number of bytes that transfers share.

    Parameters
    ----------
    limit_bytes:
        Most that all may take together. A transfer that is larger than that gets nothing, unless `lends_alone`.
    lends_alone:
        Whether one that is larger gets its room while nobody else has any.
    """

    def __init__(self, limit_bytes: int, *, lends_alone: bool = False) -> None:
        self.limit_bytes = limit_bytes
        self.lends_alone = lends_alone
        self.moved = 0.0
        """When a transfer last got room, used it, or gave it back."""
        self._held: dict[Hashable, Share] = {}
        self._waiting: dict[Hashable, Share] = {}  # in the order of asking

    @property
    def held_bytes(self) -> int:
        """Bytes that are taken."""
        return sum(share.nbytes for share in self._held.values())

    def bytes_of(self, key: Hashable) -> int:
        """Return how much room a transfer has."""
        return self._held[key].nbytes if key in self._held else 0

    def ask(self, key: Hashable, nbytes: int, now: float) -> bool:
        """Ask for a transfer's room, or ask again; whoever waits keeps its place as long as it asks.

        Returns
        -------
        Whether it has it.
        """
        before = self._held.get(key) or self._waiting.get(key)
        if before is not None and before.nbytes != nbytes:
            self.give_back(key, now)  # another transfer of that name
            before = None
        if before is None:
            self._waiting[key] = Share(nbytes, now, now)
        else:
            before.touched = now
        self._sweep(now)
        return key in self._held

    def touch(self, key: Hashable, now: float) -> None:
        """Note that a transfer with room goes on."""
        self._held[key].touched = self.moved = now

    def waits_in_vain_s(self, key: Hashable, now: float) -> float:
        """Return for how long a transfer has waited while none of the others went on; 0 if it doesn't wait."""
        share = self._waiting.get(key)
        return 0.0 if share is None else now - max(share.since, self.moved)

    def give_back(self, key: Hashable, now: float) -> bool:
        """End a transfer, whether it has room or waits; return whether anything changed."""
        waited = self._waiting.pop(key, None) is not None
        held = self._held.pop(key, None) is not None
        if held:
            self.moved = now
        if held or waited:
            self._grant(now)
        return held or waited

    def give_back_all(self, of: Callable[[Hashable], bool], now: float) -> bool:
        """End all transfers of which that is true."""
        found = [key for key in [*self._held, *self._waiting] if of(key)]
        return sum(self.give_back(key, now) for key in found) > 0

    def forgotten(self, now: float) -> list[Hashable]:
        """Return the transfers that have room and of which nothing was heard for long."""
        return [key for key, share in self._held.items() if now - share.touched > FORGOTTEN_AFTER_S]

    def _sweep(self, now: float) -> None:
        for key in self.forgotten(now):
            self.give_back(key, now)
        for key, share in list(self._waiting.items()):
            if now - share.touched > ABANDONED_AFTER_S:
                del self._waiting[key]
        self._grant(now)

    def _grant(self, now: float) -> None:
        """Give room to the first of those who wait, as long as there is enough."""
        taken = self.held_bytes
        for key, share in list(self._waiting.items()):
            alone = self.lends_alone and not self._held
            if taken + share.nbytes > self.limit_bytes and not alone:
                return
            del self._waiting[key]
            self._held[key] = share
            share.touched = self.moved = now
            taken += share.nbytes
