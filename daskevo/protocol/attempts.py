"""Ticks, attempts and who is live: the coordinator alone says so. Ended is final, and no clock decides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from daskevo.protocol.hashing import shard_of
from daskevo.protocol.holders import ClientHolder, Holder, TaskHolder
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Settle:
    """An attempt that is over without a word about its put, to be settled at its home.

    The edge asks home `Abort` first (a reader's attempt, model None, needs no verdict); if `audit.drops_all` says so
    of the answer, it sends `DropAttempt` to every shard. No answer from home: `postpone`.
    """

    model: ModelId | None
    attempt: Attempt


class Attempts:
    """Live attempts by holder, and those that wait to be settled.

    Parameters
    ----------
    generation
        This opening of the repository: all attempts of older generations are over.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._counter = 0
        self._live: dict[Attempt, tuple[Holder, ModelId | None]] = {}
        self._by_holder: dict[Holder, set[Attempt]] = {}
        # Kept for the whole generation: a holder that ended may knock again at any time, and must find it final.
        self._ended: set[Holder] = set()
        self._due: dict[Settle, None] = {}
        self._postponed: dict[Settle, None] = {}
        self._in_hand: set[Settle] = set()

    def tick(self) -> Tick:
        """Return a new tick, above all before it."""
        self._counter += 1
        return Tick(self.generation, self._counter)

    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        """Give a holder a new attempt; None if the holder isn't live (its attempts are over).

        `live` is what the scheduler knows at this moment: this run of the task is processing on that worker, or the
        client is connected.
        """
        if not live or holder in self._ended:
            return None
        attempt = self.tick()
        self._live[attempt] = holder, model
        self._by_holder.setdefault(holder, set()).add(attempt)
        return attempt

    def end(self, attempt: Attempt, *, settled: bool = True) -> None:
        """The holder says that its attempt is over; `settled` if home's verdict is known and what had to go is dropped.

        Repeated or late: nothing happens.
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
        """A task run or a client's connection ended, for good: its attempts are over, and due to be settled."""
        self._ended.add(holder)
        settles = []
        for attempt in sorted(self._by_holder.get(holder, ())):
            settles.append(Settle(self._live[attempt][1], attempt))
            self.end(attempt, settled=False)
        return settles

    def is_over(self, attempt: Attempt) -> bool:
        """Whether an attempt can't publish any more as far as the coordinator knows.

        Ticks that this coordinator never gave (a younger generation's) are not called over: no verdict is the safe
        answer.
        """
        if attempt.generation != self.generation:
            return attempt.generation < self.generation
        return attempt.counter <= self._counter and attempt not in self._live

    def live(self) -> dict[Attempt, tuple[Holder, ModelId | None]]:
        """Return the live attempts."""
        return dict(self._live)

    def holders(self) -> tuple[Holder, ...]:
        """Return the holders that have live attempts."""
        return tuple(self._by_holder)

    def holders_of_key(self, key: str) -> list[Holder]:
        """Return the runs of a task that have live attempts."""
        return [holder for holder in self._by_holder if isinstance(holder, TaskHolder) and holder.key == key]

    def holders_of_worker(self, worker: str) -> list[Holder]:
        """Return the task runs on a worker that have live attempts."""
        return [holder for holder in self._by_holder if isinstance(holder, TaskHolder) and holder.worker == worker]

    def holders_of_client(self, client_id: str) -> list[Holder]:
        """Return the connections of a client that have live attempts."""
        return [
            holder for holder in self._by_holder if isinstance(holder, ClientHolder) and holder.client_id == client_id
        ]

    def take_settling(self) -> list[Settle]:
        """Return what is due to be settled now; each must come back as `settled` or `postpone`."""
        due, self._due = list(self._due), {}
        self._in_hand.update(due)
        return due

    def settled(self, settle: Settle) -> None:
        """Home gave its verdict, and the drops that follow from it were sent (what was lost, the audit finds)."""
        self._in_hand.discard(settle)

    def postpone(self, settle: Settle) -> None:
        """Home gave no answer: later."""
        if settle in self._in_hand:
            self._in_hand.remove(settle)
            self._postponed[settle] = None

    def resume_settling(self, opened: Iterable[int] | None = None, shards: int = 1) -> None:
        """What was postponed is due again: all of it, or what has its home in one of the shards just opened."""
        chosen = None if opened is None else frozenset(opened)
        for settle in list(self._postponed):
            if chosen is None or settle.model is None or shard_of(settle.model, shards) in chosen:
                del self._postponed[settle]
                self._due[settle] = None

    def unsettled(self) -> int:
        """Return how many attempts wait to be settled."""
        return len(self._due) + len(self._postponed) + len(self._in_hand)
