"""Ticks, attempts and live holders, which only the coordinator decides on. An end is final, and no clock causes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, Holder, TaskHolder
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Settle:
    """An attempt that ended without a verdict on its put, to be settled at its home shard.

    The scheduler plugin sends `Abort` to the home shard first (not for a reader's attempt, whose model is None). If
    `audit.drops_all` holds for the answer, it sends `DropAttempt` to all shards. Without an answer: `postpone`.
    """

    model: ModelId | None
    attempt: Attempt


class Attempts:
    """Live attempts by holder, and attempts that wait to be settled.

    Parameters
    ----------
    generation
        Number of this opening of the repository; all attempts of older generations are over.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._counter = 0
        self._live: dict[Attempt, tuple[Holder, ModelId | None]] = {}
        self._by_holder: dict[Holder, set[Attempt]] = {}
        # Kept for the whole generation: a late message of an ended holder may come at any time, and must be refused.
        self._ended: set[Holder] = set()
        self._due: dict[Settle, None] = {}
        self._postponed: dict[Settle, None] = {}
        self._in_hand: set[Settle] = set()

    def tick(self) -> Tick:
        """Return a new tick, higher than all earlier ones."""
        self._counter += 1
        return Tick(self.generation, self._counter)

    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        """Begin an attempt of a holder; return None if the holder isn't live.

        `live` is the scheduler's present knowledge: this run of the task is processing on its worker, or the client is
        connected.
        """
        # Ended is final, whatever the scheduler says by now: the holder's attempts may have been given back already.
        if not live or holder in self._ended:
            return None
        attempt = self.tick()
        self._live[attempt] = holder, model
        self._by_holder.setdefault(holder, set()).add(attempt)
        return attempt

    def end(self, attempt: Attempt, *, settled: bool = True) -> None:
        """End an attempt at its holder's request; a repeated or late call has no effect.

        `settled`: the verdict of the home shard is known, and the references have been dropped accordingly.
        """
        entry = self._live.pop(attempt, None)
        if entry is None:
            return
        holder, model = entry
        attempts = self._by_holder[holder]
        attempts.discard(attempt)
        if not attempts:
            del self._by_holder[holder]
        if not settled:
            self._due[Settle(model, attempt)] = None

    def holder_ended(self, holder: Holder) -> list[Settle]:
        """Record that a task run or a client's connection has ended for good; return its attempts, to be settled."""
        self._ended.add(holder)
        settles = []
        for attempt in sorted(self._by_holder.get(holder, ())):
            settles.append(Settle(self._live[attempt][1], attempt))
            self.end(attempt, settled=False)
        return settles

    def _is_over(self, attempt: Attempt) -> bool:
        """Whether the coordinator knows that an attempt is over.

        False for ticks that this coordinator has not issued, such as those of a later generation: an attempt that does
        not count as over is left alone, which is the safe answer.
        """
        if attempt.generation != self.generation:
            # All attempts of earlier coordinators are over, without knowing any of them.
            return attempt.generation < self.generation
        return attempt.counter <= self._counter and attempt not in self._live

    def over(self, attempts: Iterable[Attempt]) -> list[bool]:
        """Return for each attempt whether it is over, for the audit."""
        return [self._is_over(attempt) for attempt in attempts]

    def live(self) -> dict[Attempt, tuple[Holder, ModelId | None]]:
        """Return the live attempts with their holders and models."""
        return dict(self._live)

    def holders(self) -> tuple[Holder, ...]:
        """Return the holders that have live attempts."""
        return tuple(self._by_holder)

    def holders_of_key(self, key: str) -> list[Holder]:
        """Return the runs of a task that have live attempts."""
        return [holder for holder in self._by_holder if isinstance(holder, TaskHolder) and holder.key == key]

    def holders_of_client(self, client_id: str) -> list[Holder]:
        """Return the connections of a client that have live attempts."""
        return [
            holder for holder in self._by_holder if isinstance(holder, ClientHolder) and holder.client_id == client_id
        ]

    def take_settling(self) -> list[Settle]:
        """Return the attempts to settle now; pass each to `settled` or `postpone` afterwards."""
        due, self._due = list(self._due), {}
        self._in_hand.update(due)
        return due

    def settled(self, settle: Settle) -> None:
        """Record that the home shard gave its verdict and the drops were sent; the audit makes up for lost drops."""
        self._in_hand.discard(settle)

    def postpone(self, settle: Settle) -> None:
        """Settle an attempt later, since its home shard did not answer."""
        # A late report must not bring back what was settled meanwhile.
        if settle in self._in_hand:
            self._in_hand.remove(settle)
            self._postponed[settle] = None

    def resume_settling(self, opened: Iterable[int] | None = None, shards: int = 1) -> None:
        """Make postponed attempts due again: all, or those whose home shard is among shards that were just opened."""
        chosen = None if opened is None else frozenset(opened)
        for settle in list(self._postponed):
            if chosen is None or settle.model is None or shard_of(settle.model, shards) in chosen:
                del self._postponed[settle]
                self._due[settle] = None

    def unsettled(self) -> int:
        """Return how many attempts wait to be settled."""
        return len(self._due) + len(self._postponed) + len(self._in_hand)
