"""The shard table: which provider owns which shard, as providers come, go, and are cut off."""

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
    """A provider: its worker's name, which outlives restarts, and its address now."""

    plain: ClassVar[bool] = True

    name: Annotated[str, TEXT]
    address: Annotated[str, TEXT]


@dataclass(frozen=True)
class ShardTable(Wire):
    """Who serves each shard. Clients cache it and ask again on "not mine"."""

    version: Annotated[int, COUNT]
    generation: Annotated[int, COUNT]
    places: Annotated[dict[int, Place | None], mapping(COUNT, optional(part(Place)))]
    """None: nobody serves the shard at the moment."""
    lost: Annotated[dict[int, Tick], mapping(COUNT, TICK)]
    """Shards whose content from before that tick is gone for good (repositories in memory only)."""
    troubles: Annotated[dict[int, str], mapping(COUNT, TEXT)] = field(default_factory=dict)
    """Shards that nobody serves -> ``kind of error: message`` of the last try to open them, as the edge knows it."""
    lost_with: Annotated[dict[int, str], mapping(COUNT, TEXT)] = field(default_factory=dict)
    """Shards in `lost` -> name of the provider with whose memory the content went."""

    @property
    def shards(self) -> int:
        """Number of shards of the repository."""
        return len(self.places)

    def place(self, model_id: ModelId) -> Place | None:
        """Return who serves a model's home."""
        return self.places[shard_of(model_id, self.shards)]

    def lost_owners(self, owner_map: OwnerMap, attempt: Attempt) -> frozenset[ModelId]:
        """Return the owners, in a map made under `attempt`, whose tensors went with their shard.

        An attempt from before the loss could only refer to tensors from before it; a later one, only to later ones.
        """
        if not self.lost:
            return frozenset()
        never = Tick(0, 0)
        return frozenset(
            owner for owner in owner_map.owners if attempt < self.lost.get(shard_of(owner, self.shards), never)
        )


@dataclass(frozen=True)
class OpenShards(Wire):
    """Instruction: this provider is to open these shards, each with its floor if its former content is lost."""

    place: Annotated[Place, part(Place)]
    shards: Annotated[tuple[int, ...], sequence(COUNT)]
    floors: Annotated[dict[int, Tick], mapping(COUNT, TICK)]


@dataclass(frozen=True)
class MoveShard(Wire):
    """Instruction: a shard that one provider serves is to be closed there, then opened at another.

    To close it is manners, so that messages under way end first: the next owner's epoch fences the former one anyway.
    """

    shard: Annotated[int, COUNT]
    source: Annotated[Place, part(Place)]
    target: Annotated[Place, part(Place)]


class Assignment:
    """Makes the shard table: events in, instructions out.

    Parameters
    ----------
    shards
        Number of shards of the repository.
    durable
        Whether a shard survives its provider (there is a root): it is opened elsewhere then. Otherwise its content
        is lost with it, and it begins anew, empty.
    tick
        Where new ticks come from.
    """

    def __init__(self, shards: int, *, durable: bool, tick: Callable[[], Tick]) -> None:
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
        """A provider came, or came back at another address without what it had open."""
        if name in self._providers and self._providers[name].address != address:
            self.provider_left(name)
        self._providers[name] = Place(name, address)

    def provider_left(self, name: str) -> None:
        """A provider went, in order or not: its shards are nobody's."""
        if self._providers.pop(name, None) is None:
            return
        shards = [shard for shard in range(self.shards) if self._owner(shard) == name]
        for shard in shards:
            self._serving.pop(shard, None)
            self._opening.pop(shard, None)
            if not self.durable:
                self._lost[shard] = self._tick()
                self._lost_with[shard] = name
        self.version += 1

    def assign(self, avoid: Container[str] = (), leaving: Container[str] = ()) -> list[OpenShards]:
        """Give each shard that nobody has to the provider with the fewest.

        Those to `avoid` (they gave no answer lately) get some only where there are no others; those `leaving` get none.
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
        """Move up to `most` shards from providers that leave, and still serve them, to those that stay.

        Nothing moves where shards don't survive it, or nobody stays.
        """
        takers = self._takers(leaving, avoid)
        return [self._move(*move) for move in handed_over(self._serving, self._load(), leaving, takers, most)]

    def can_hand_over(self, name: str, leaving: Container[str], avoid: Container[str] = ()) -> bool:
        """Whether a provider serves shards that others could take over."""
        return name in self._serving.values() and any(taker != name for taker in self._takers(leaving, avoid))

    def even_out(self, leaving: Container[str] = (), avoid: Container[str] = ()) -> MoveShard | None:
        """Move one shard from the provider with the most to the one with the fewest, if they differ by too much.

        Only while nothing else is being opened: what moves is counted where it will be.
        """
        move = None
        if not self._opening:
            move = evened_out(self._serving, self._load(), self._takers(leaving, avoid), begun=self._evening)
        self._evening = move is not None
        return None if move is None else self._move(*move)

    def give_up(self, silent: Container[str], leaving: Container[str] = ()) -> bool:
        """Take the shards of providers that give no sign of life, if others can serve them; whether any were taken.

        They stay providers: only shards move by silence, and the epoch of the next owner fences whoever wakes up.
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
        """Whether a shard is a provider's, served or being opened."""
        return self._owner(shard) == name

    def opened(self, shard: int, name: str) -> bool:
        """A provider has opened a shard and serves it; False if it was given to another meanwhile: it must close it."""
        if self._opening.get(shard) != name:
            return self._serving.get(shard) == name
        del self._opening[shard]
        self._serving[shard] = name
        self.version += 1
        return True

    def not_served(self, shard: int, name: str) -> None:
        """A provider couldn't open a shard, or found a foreign epoch on it: the shard is nobody's.

        When to try again is the edge's to say (`assign`).
        """
        if self._opening.get(shard) == name:
            del self._opening[shard]
        elif self._serving.get(shard) == name:
            del self._serving[shard]
            self.version += 1

    def table(self, generation: int) -> ShardTable:
        """Return the table as it stands."""
        places = {
            shard: self._providers[self._serving[shard]] if shard in self._serving else None
            for shard in range(self.shards)
        }
        return ShardTable(self.version, generation, places, dict(self._lost), {}, dict(self._lost_with))

    def providers(self) -> dict[str, Place]:
        """Return the providers that are there."""
        return dict(self._providers)

    def _takers(self, leaving: Container[str], avoid: Container[str]) -> list[str]:
        if not self.durable:
            return []
        return [name for name in self._providers if name not in leaving and name not in avoid]

    def _move(self, shard: int, target: str) -> MoveShard:
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
