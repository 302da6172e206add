"""The coordinator's state machine: ticks, attempts and their holders, settling, the shard table.

Nothing of models, labels or retirement lives here: a restart begins a new generation with nothing but its number,
and all attempts of older ones are over by that.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from daskevo.protocol.attempts import Attempts, Settle
from daskevo.protocol.holders import Holder
from daskevo.protocol.shard_table import Assignment, MoveShard, OpenShards, Place, ShardTable
from daskevo.types import Attempt, ModelId, Tick


class Coordinator:
    """Events in, instructions out; the scheduler plugin carries them out.

    Parameters
    ----------
    generation
        This opening of the repository, above all former ones.
    shards
        Number of shards of the repository.
    durable
        Whether shards survive their provider (there is a root).
    """

    def __init__(self, generation: int, shards: int, *, durable: bool = True) -> None:
        self.generation = generation
        self.shards = shards
        self._attempts = Attempts(generation)
        self._assignment = Assignment(shards, durable=durable, tick=self._attempts.tick)

    def tick(self) -> Tick:
        """Return a new tick: it orders a hold, a release or a creation."""
        return self._attempts.tick()

    def begin(self, holder: Holder, model: ModelId | None, *, live: bool) -> Attempt | None:
        """Give a holder a new attempt to make `model`, or to read (None). None if the holder isn't live."""
        return self._attempts.begin(holder, model, live=live)

    def end(self, attempt: Attempt, *, settled: bool = True) -> None:
        """An attempt is over, says its holder. Not settled (put got no verdict): it will be."""
        self._attempts.end(attempt, settled=settled)

    def holder_ended(self, holder: Holder) -> list[Settle]:
        """A task run or a client's connection ended, for good; returns what is due now (see `take_settling`)."""
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
        """Answer the audit: which attempts are over. A live one gets no verdict."""
        return [self._attempts.is_over(attempt) for attempt in attempts]

    def live(self) -> dict[Attempt, tuple[Holder, ModelId | None]]:
        """Return the live attempts with their holders and models."""
        return self._attempts.live()

    def take_settling(self) -> list[Settle]:
        """Return what is due to be settled; each must come back as `settled` or `postpone`."""
        return self._attempts.take_settling()

    def settled(self, settle: Settle) -> None:
        """Home gave its verdict and the drops were sent."""
        self._attempts.settled(settle)

    def postpone(self, settle: Settle) -> None:
        """Home gave no answer: due again when its shard is opened, or at `resume_settling`."""
        self._attempts.postpone(settle)

    def resume_settling(self) -> None:
        """Everything postponed is due again (the edge calls this now and then)."""
        self._attempts.resume_settling()

    def unsettled(self) -> int:
        """Return how many attempts wait to be settled."""
        return self._attempts.unsettled()

    def provider_joined(self, name: str, address: str) -> None:
        """A provider came. `assign` gives it shards."""
        self._assignment.provider_joined(name, address)

    def provider_left(self, name: str) -> None:
        """A provider went: its shards are nobody's until `assign`."""
        self._assignment.provider_left(name)

    def assign(self, avoid: Container[str] = (), leaving: Container[str] = ()) -> list[OpenShards]:
        """Return who is to open the shards that nobody has: nobody `leaving`, those to `avoid` if nobody else can."""
        return self._assignment.assign(avoid, leaving)

    def hand_over(self, leaving: Collection[str], avoid: Container[str] = (), most: int = 1) -> list[MoveShard]:
        """Return up to `most` moves of shards from providers that leave to those that stay."""
        return self._assignment.hand_over(leaving, avoid, most)

    def can_hand_over(self, name: str, leaving: Container[str], avoid: Container[str] = ()) -> bool:
        """Whether a provider serves shards that others could take over."""
        return self._assignment.can_hand_over(name, leaving, avoid)

    def even_out(self, leaving: Container[str] = (), avoid: Container[str] = ()) -> MoveShard | None:
        """Return the next move that evens out the providers' shares; None: they are even enough."""
        return self._assignment.even_out(leaving, avoid)

    def give_up(self, silent: Container[str], leaving: Container[str] = ()) -> bool:
        """Make the shards of silent providers nobody's, if others can serve them; whether there were any."""
        return self._assignment.give_up(silent, leaving)

    def serves(self, name: str) -> set[int]:
        """Return the shards that a provider serves."""
        return self._assignment.serves(name)

    def has(self, name: str, shard: int) -> bool:
        """Whether a shard is a provider's, served or being opened."""
        return self._assignment.has(name, shard)

    def opened(self, shard: int, name: str) -> bool:
        """A provider serves a shard from now on; False: it isn't its own any more, and must be closed."""
        mine = self._assignment.opened(shard, name)
        if mine:
            self._attempts.resume_settling([shard], self.shards)
        return mine

    def not_served(self, shard: int, name: str) -> None:
        """A provider failed to open a shard, or was fenced from it."""
        self._assignment.not_served(shard, name)

    def table(self) -> ShardTable:
        """Return the shard table as it stands."""
        return self._assignment.table(self.generation)

    def providers(self) -> dict[str, Place]:
        """Return the providers that are there, by name."""
        return self._assignment.providers()
