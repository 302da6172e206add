"""The shard table: assignment of shards to providers, as providers join, leave, and stop answering."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from daskevo.protocol.codec import COUNT, TEXT, TICK, Wire, mapping, optional, part, sequence
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.moves import evened_out, handed_over
from daskevo.protocol.owner_map import OwnerMap
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Place(Wire):
    """A provider: the name of its worker, which stays the same after a restart, and its present address."""

    plain: ClassVar[bool] = True

    name: Annotated[str, TEXT]
    address: Annotated[str, TEXT]


@dataclass(frozen=True)
class ShardTable(Wire):
    """The provider of each shard. Clients cache the table, and fetch it again if a provider does not serve a shard."""

    version: Annotated[int, COUNT]
    generation: Annotated[int, COUNT]
    places: Annotated[dict[int, Place | None], mapping(COUNT, optional(part(Place)))]
    """None: no provider serves the shard at the moment."""
    lost: Annotated[dict[int, Tick], mapping(COUNT, TICK)]
    """Shards whose content from before a tick is lost for good (repositories in memory only)."""
    troubles: Annotated[dict[int, str], mapping(COUNT, TEXT)] = field(default_factory=dict)
    """Shards without a provider -> ``kind of error: message`` of the last attempt to open them, if it is known."""
    lost_with: Annotated[dict[int, str], mapping(COUNT, TEXT)] = field(default_factory=dict)
    """Shards in `lost` -> name of the provider whose memory had the content."""

    @property
    def shards(self) -> int:
        """Number of shards of the repository."""
        return len(self.places)

    def place(self, model_id: ModelId) -> Place | None:
        """Return the provider of a model's home shard."""
        return self.places[shard_of(model_id, self.shards)]

    def lost_owners(self, owner_map: OwnerMap, attempt: Attempt) -> frozenset[ModelId]:
        """Return the owners in a map made under `attempt` whose tensors were lost with their shard.

        An attempt from before a loss can only refer to tensors from before it, a later one only to later tensors.
        """
        if not self.lost:
            return frozenset()
        never = Tick(0, 0)
        return frozenset(
            owner for owner in owner_map.owners if attempt < self.lost.get(shard_of(owner, self.shards), never)
        )


@dataclass(frozen=True)
class OpenShards(Wire):
    """Instruction: a provider has to open shards, with a floor for each shard whose former content is lost."""

    place: Annotated[Place, part(Place)]
    shards: Annotated[tuple[int, ...], sequence(COUNT)]
    floors: Annotated[dict[int, Tick], mapping(COUNT, TICK)]


@dataclass(frozen=True)
class MoveShard(Wire):
    """Instruction: a shard has to be closed at its provider, then opened at another.

    Closing it first lets running messages end. It is not needed for safety: the epoch of the next owner fences the
    former one anyway.
    """

    shard: Annotated[int, COUNT]
    source: Annotated[Place, part(Place)]
    target: Annotated[Place, part(Place)]


class Assignment:
    """Maintains the shard table: turns events into instructions.

    Parameters
    ----------
    generation
        Number of this opening of the repository.
    shards
        Number of shards of the repository.
    durable
        Whether a shard survives its provider, because there is a root, and can be opened elsewhere. Otherwise its
        content is lost with the provider, and the shard begins again empty.
    tick
        Returns a new tick.
    """

    def __init__(self, generation: int, shards: int, *, durable: bool, tick: Callable[[], Tick]) -> None:
        self.generation = generation
        self.shards = shards
        self.durable = durable
        self.version = 0
        self._tick = tick
        self._providers: dict[str, Place] = {}
        self._serving: dict[int, str] = {}
        self._opening: dict[int, str] = {}
        self._lost: dict[int, Tick] = {}
        self._lost_with: dict[int, str] = {}
        self._evening = False

    def provider_joined(self, name: str, address: str) -> None:
        """Add a provider; if it comes back at another address, its process has restarted and serves no shards."""
        if name in self._providers and self._providers[name].address != address:
            self.provider_left(name)
        self._providers[name] = Place(name, address)

    def provider_left(self, name: str) -> None:
        """Remove a provider that has left or died; its shards have no provider then."""
        if self._providers.pop(name, None) is None:
            return
        shards = [shard for shard in range(self.shards) if self._owner(shard) == name]
        for shard in shards:
            self._serving.pop(shard, None)
            self._opening.pop(shard, None)
            if not self.durable:
                # Attempts before this tick may have had tensors in the shard; the next opening refuses them.
                self._lost[shard] = self._tick()
                self._lost_with[shard] = name
        self.version += 1

    def assign(self, avoid: Container[str] = (), leaving: Container[str] = ()) -> list[OpenShards]:
        """Assign each shard without a provider to the one with the fewest shards.

        Providers in `avoid`, which did not answer lately, get shards only if there are no others; those in `leaving`
        get none.
        """
        load = {name: shards for name, shards in self._load().items() if name not in leaving}
        load = {name: shards for name, shards in load.items() if name not in avoid} or load
        given: dict[str, list[int]] = {}
        for shard in range(self.shards):
            if load and self._owner(shard) is None:
                name = min(load, key=lambda name: (load[name], name))
                load[name] += 1
                given.setdefault(name, []).append(shard)
        return [self._open(name, shards) for name, shards in given.items()]

    def hand_over(self, leaving: Collection[str], avoid: Container[str] = (), most: int = 1) -> list[MoveShard]:
        """Move up to `most` shards from leaving providers, which still serve them, to those that stay.

        Nothing moves if shards are in memory only, or if no provider stays.
        """
        takers = self._takers(leaving, avoid)
        return [self._move(*move) for move in handed_over(self._serving, self._load(), leaving, takers, most)]

    def can_hand_over(self, name: str, leaving: Container[str], avoid: Container[str] = ()) -> bool:
        """Whether a provider serves shards that others could take over."""
        return name in self._serving.values() and any(taker != name for taker in self._takers(leaving, avoid))

    def even_out(self, leaving: Container[str] = (), avoid: Container[str] = ()) -> MoveShard | None:
        """Move one shard from the provider with the most to the one with the fewest, if they differ by too much.

        Nothing moves while a shard is being opened: one move at a time, and its result decides about the next.
        """
        move = None
        if not self._opening:
            move = evened_out(self._serving, self._load(), self._takers(leaving, avoid), begun=self._evening)
        self._evening = move is not None
        return None if move is None else self._move(*move)

    def give_up(self, silent: Container[str], leaving: Container[str] = ()) -> bool:
        """Take shards from providers that don't answer, if others can serve them; return whether any were taken.

        Silent providers stay in the table, without shards. If one wakes up, the epochs of the next owners fence it.
        """
        if not self._takers(leaving, silent):
            return False
        owners = {**self._opening, **self._serving}
        shards = [shard for shard, name in owners.items() if name in silent]
        for shard in shards:
            self._serving.pop(shard, None)
            self._opening.pop(shard, None)
        self.version += bool(shards)
        return bool(shards)

    def serves(self, name: str) -> set[int]:
        """Return the shards that a provider serves."""
        return {shard for shard, owner in self._serving.items() if owner == name}

    def has(self, name: str, shard: int) -> bool:
        """Whether a provider serves or opens a shard."""
        return self._owner(shard) == name

    def opened(self, shard: int, name: str) -> bool:
        """Record that a provider has opened a shard; False if it was reassigned meanwhile, and must be closed there."""
        if self._opening.get(shard) != name:
            return self._serving.get(shard) == name
        del self._opening[shard]
        self._serving[shard] = name
        self.version += 1
        return True

    def not_served(self, shard: int, name: str) -> None:
        """Record that a provider failed to open a shard, or was fenced from it; the shard has no provider then.

        The caller decides when to try again, with `assign`.
        """
        # No new version for a shard that was still being opened: the table named no provider for it before either.
        if self._opening.get(shard) == name:
            del self._opening[shard]
        elif self._serving.get(shard) == name:
            del self._serving[shard]
            self.version += 1

    def table(self) -> ShardTable:
        """Return the current table."""
        places = {
            shard: self._providers[self._serving[shard]] if shard in self._serving else None
            for shard in range(self.shards)
        }
        # Troubles are added by the scheduler plugin, which hears why an opening failed.
        return ShardTable(self.version, self.generation, places, dict(self._lost), {}, dict(self._lost_with))

    def providers(self) -> dict[str, Place]:
        """Return the present providers, by name."""
        return dict(self._providers)

    def _takers(self, leaving: Container[str], avoid: Container[str]) -> list[str]:
        if not self.durable:
            return []
        return [name for name in self._providers if name not in leaving and name not in avoid]

    def _move(self, shard: int, target: str) -> MoveShard:
        # Not served by either until the target has opened it: clients wait and ask the new provider.
        source = self._serving.pop(shard)
        self._opening[shard] = target
        self.version += 1
        return MoveShard(shard, self._providers[source], self._providers[target])

    def _owner(self, shard: int) -> str | None:
        return self._serving.get(shard) or self._opening.get(shard)

    def _load(self) -> dict[str, int]:
        load = dict.fromkeys(self._providers, 0)
        for name in [*self._serving.values(), *self._opening.values()]:
            load[name] += 1
        return load

    def _open(self, name: str, shards: list[int]) -> OpenShards:
        for shard in shards:
            self._opening[shard] = name
        floors = {shard: self._lost[shard] for shard in shards if shard in self._lost}
        return OpenShards(self._providers[name], tuple(shards), floors)
