"""State machine of the coordinator: ticks, attempts and their holders, settling, and the shard table.

Models, labels and retirements are kept in shards, not here. So a restarted coordinator needs nothing but the number of
its new generation, with which all attempts of older generations are over.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from daskevo.protocol.attempts import Attempts, Settle
from daskevo.protocol.holders import Holder
from daskevo.protocol.shard_table import Assignment, MoveShard, OpenShards, Place, ShardTable
from daskevo.types import Attempt, ModelId, Tick


class Coordinator:
    """Turns events into instructions, which the scheduler plugin carries out.

    Parameters
    ----------
    generation
        Number of this opening of the repository, higher than all earlier ones.
    shards
        Number of shards of the repository.
    durable
        Whether shards survive their provider, because there is a root.
    """

    def __init__(self, generation: int, shards: int, *, durable: bool = True) -> None:
        self.generation = generation
        self.shards = shards
        self._attempts = Attempts(generation)
        self._assignment = Assignment(shards, durable=durable, tick=self._attempts.tick)

    def tick(self) -> Tick:
        """Return a new tick, which orders holds, releases and creations."""
        return self._attempts.tick()

    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        """Begin an attempt of a holder to make `model`, or to read (None); return None if the holder isn't live."""
        return self._attempts.begin(holder, model, live=live)

    def end(self, attempt: Attempt, *, settled: bool = True) -> None:
        """End an attempt at its holder's request; if not `settled`, since its put got no verdict, settle it later."""
        self._attempts.end(attempt, settled=settled)

    def holder_ended(self, holder: Holder) -> list[Settle]:
        """Record that a task run or a client's connection has ended, which is final; return attempts to settle."""
        return self._attempts.holder_ended(holder)

    def holders(self) -> tuple[Holder, ...]:
        """Return the holders that have live attempts."""
        return self._attempts.holders()

    def holders_of_key(self, key: str) -> list[Holder]:
        """Return the runs of a task that have live attempts."""
        return self._attempts.holders_of_key(key)

    def holders_of_worker(self, worker: str) -> list[Holder]:
        """Return the task runs on a worker that have live attempts."""
        return self._attempts.holders_of_worker(worker)

    def holders_of_client(self, client_id: str) -> list[Holder]:
        """Return the connections of a client that have live attempts."""
        return self._attempts.holders_of_client(client_id)

    def over(self, attempts: Iterable[Attempt]) -> list[bool]:
        """Return for each attempt whether it is over, for the audit."""
        return [self._attempts.is_over(attempt) for attempt in attempts]

    def live(self) -> dict[Attempt, tuple[Holder, ModelId | None]]:
        """Return the live attempts with their holders and models."""
        return self._attempts.live()

    def take_settling(self) -> list[Settle]:
        """Return the attempts to settle now; pass each to `settled` or `postpone` afterwards."""
        return self._attempts.take_settling()

    def settled(self, settle: Settle) -> None:
        """Record that the home shard has given its verdict, and the drops were sent."""
        self._attempts.settled(settle)

    def postpone(self, settle: Settle) -> None:
        """Settle an attempt later, as its home shard did not answer: when that is opened, or at `resume_settling`."""
        self._attempts.postpone(settle)

    def resume_settling(self) -> None:
        """Make all postponed attempts due again; the scheduler plugin calls this at intervals."""
        self._attempts.resume_settling()

    def unsettled(self) -> int:
        """Return how many attempts wait to be settled."""
        return self._attempts.unsettled()

    def provider_joined(self, name: str, address: str) -> None:
        """Add a provider; `assign` gives it shards."""
        self._assignment.provider_joined(name, address)

    def provider_left(self, name: str) -> None:
        """Remove a provider; its shards have no provider until `assign`."""
        self._assignment.provider_left(name)

    def assign(self, avoid: Container[str] = (), leaving: Container[str] = ()) -> list[OpenShards]:
        """Assign shards without a provider; to those in `avoid` if there are no others, never to those in `leaving`."""
        return self._assignment.assign(avoid, leaving)

    def hand_over(self, leaving: Collection[str], avoid: Container[str] = (), most: int = 1) -> list[MoveShard]:
        """Return up to `most` moves of shards from leaving providers to those that stay."""
        return self._assignment.hand_over(leaving, avoid, most)

    def can_hand_over(self, name: str, leaving: Container[str], avoid: Container[str] = ()) -> bool:
        """Whether a provider serves shards that others could take over."""
        return self._assignment.can_hand_over(name, leaving, avoid)

    def even_out(self, leaving: Container[str] = (), avoid: Container[str] = ()) -> MoveShard | None:
        """Return the next move that balances the number of shards per provider; None if they are balanced."""
        return self._assignment.even_out(leaving, avoid)

    def give_up(self, silent: Container[str], leaving: Container[str] = ()) -> bool:
        """Take shards from silent providers, if others can serve them; return whether there were any."""
        return self._assignment.give_up(silent, leaving)

    def serves(self, name: str) -> set[int]:
        """Return the shards that a provider serves."""
        return self._assignment.serves(name)

    def has(self, name: str, shard: int) -> bool:
        """Whether a provider serves or opens a shard."""
        return self._assignment.has(name, shard)

    def opened(self, shard: int, name: str) -> bool:
        """Record that a provider serves a shard; False if the shard has been reassigned, and must be closed there."""
        mine = self._assignment.opened(shard, name)
        if mine:
            self._attempts.resume_settling([shard], self.shards)
        return mine

    def not_served(self, shard: int, name: str) -> None:
        """Record that a provider failed to open a shard, or was fenced from it."""
        self._assignment.not_served(shard, name)

    def table(self) -> ShardTable:
        """Return the current shard table."""
        return self._assignment.table(self.generation)

    def providers(self) -> dict[str, Place]:
        """Return the present providers, by name."""
        return self._assignment.providers()
