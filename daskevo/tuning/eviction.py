"""Choose snapshots to delete when space is short: those with the lowest retraining cost per byte.

Labels say why a snapshot is kept: ``request``, while it is needed, or ``cache``, against failures and for later
studies. Only snapshots with nothing but ``cache`` labels are deleted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from daskevo.errors import InvalidInput
from daskevo.tuning.cost import Costs
from daskevo.tuning.needs import latest_snapshot
from daskevo.tuning.plan import SearchPlan, State

EVICTABLE = frozenset({"cache"})
"""Kinds of labels that don't protect a snapshot."""


@dataclass(frozen=True, slots=True)
class KeptSnapshot:
    """A stored snapshot.

    Parameters
    ----------
    name:
        The snapshot's name.
    kinds:
        Kinds of its labels.
    tensors:
        Stored tensors that it refers to -> bytes. Shared ones are stored once.
    earlier:
        Name of the stored snapshot from which it could be trained again; None: from the beginning.
    seconds:
        Seconds that training it again would take.
    """

    name: str
    kinds: Collection[str]
    tensors: Mapping[Hashable, int]
    earlier: str | None
    seconds: float

    @property
    def evictable(self) -> bool:
        return EVICTABLE.issuperset(self.kinds)


def evictions(kept: Sequence[KeptSnapshot], quota_bytes: int) -> tuple[str, ...]:
    """Return the snapshots whose ``cache`` labels to release, so that the rest takes at most `quota_bytes`.

    Snapshots go one at a time: always the one with the fewest seconds of retraining, from the nearest remaining
    snapshot, per byte that only it holds. Some stay after all if a later deletion frees more than enough. If deleting
    all that may go is not enough, all of them go.

    Parameters
    ----------
    kept:
        All stored snapshots.
    quota_bytes:
        Maximum number of bytes of all of them.

    Raises
    ------
    InvalidInput
        If a name occurs twice, or `earlier` forms a cycle.

    Examples
    --------
    >>> def of(name, nbytes, earlier, seconds):
    ...     return KeptSnapshot(name, {"cache"}, {name: nbytes}, earlier, seconds)
    >>> evictions([of("a", 10, None, 100.0), of("b", 10, "a", 5.0), of("c", 10, "b", 50.0)], 20)
    ('b',)
    """
    shelf = _Shelf(kept)
    gone: list[str] = []
    while shelf.nbytes > quota_bytes and (name := shelf.cheapest()) is not None:
        shelf.release(name)
        gone.append(name)
    # Not even all was enough, so none of it can stay.
    if shelf.nbytes > quota_bytes:
        return tuple(gone)
    # The dearest last, so in reverse: what costs most to train again is the first to stay.
    stays = {name for name in reversed(gone) if shelf.back(name, quota_bytes)}
    return tuple(name for name in gone if name not in stays)


def make_room(kept: Sequence[KeptSnapshot], nbytes: int) -> tuple[str, ...]:
    """Return the snapshots whose ``cache`` labels to release so that `nbytes` more can be stored.

    Chosen as by :func:`evictions`. Nothing is returned if all that may go would not suffice.

    Examples
    --------
    >>> cached = KeptSnapshot("a", {"cache"}, {"a": 10}, None, 100.0)
    >>> kept = [cached, KeptSnapshot("b", {"request"}, {"b": 10}, "a", 5.0)]
    >>> make_room(kept, 8), make_room(kept, 12)
    (('a',), ())
    """
    before = stored_bytes(kept)
    gone = evictions(kept, before - nbytes)
    left = [one for one in kept if one.name not in gone]
    return gone if before - stored_bytes(left) >= nbytes else ()


def stored_bytes(kept: Iterable[KeptSnapshot]) -> int:
    """Return what snapshots take together: what several refer to counts once."""
    return sum({tensor: size for one in kept for tensor, size in one.tensors.items()}.values())


class _Shelf:
    """What is still there, and what each that may go would cost and free."""

    def __init__(self, kept: Sequence[KeptSnapshot]) -> None:
        self._kept = {one.name: one for one in kept}
        if len(self._kept) < len(kept):
            raise InvalidInput("of the snapshots that are kept, two have the same name")
        self._gone: dict[str, KeptSnapshot] = {}
        self._users = Counter(tensor for one in kept for tensor in one.tensors)
        self._holders: dict[Hashable, list[str]] = {}
        for one in kept:
            for tensor in one.tensors:
                self._holders.setdefault(tensor, []).append(one.name)
        self.nbytes = stored_bytes(kept)
        self._freed = {
            one.name: sum(size for tensor, size in one.tensors.items() if self._users[tensor] == 1) for one in kept
        }
        self._earlier = {one.name: one.earlier if one.earlier in self._kept else None for one in kept}
        self._seconds = {one.name: one.seconds for one in kept}
        self._later: dict[str, list[str]] = {}
        for name, earlier in self._earlier.items():
            if earlier is not None:
                self._later.setdefault(earlier, []).append(name)
        self._check_order()
        self._queue = [(*self._rank(one.name), one.name) for one in kept if one.evictable]
        heapq.heapify(self._queue)

    def _check_order(self) -> None:
        # The list grows while it is read; what is in a circle is never reached from a snapshot without an earlier one.
        reached = [name for name, earlier in self._earlier.items() if earlier is None]
        for name in reached:
            reached += self._later.get(name, ())
        if len(reached) < len(self._kept):
            raise InvalidInput("snapshots that are kept would be trained from each other in a circle")

    def _rank(self, name: str) -> tuple[float, float]:
        seconds, freed = self._seconds[name], self._freed[name]
        # Those that free nothing go last, unless they also cost nothing: duplicates.
        return (seconds / freed if freed else inf if seconds else 0.0), seconds

    def cheapest(self) -> str | None:
        """Return the snapshot to delete next, if any may be."""
        while self._queue:
            # Ranks change when others go, and then a new entry is pushed: skip the outdated ones.
            *rank, name = heapq.heappop(self._queue)
            if name in self._kept and tuple(rank) == self._rank(name):
                return name
        return None

    def release(self, name: str) -> None:
        """Delete a snapshot; others may then free more bytes, and take longer to train again."""
        gone = self._kept.pop(name)
        self.nbytes -= self._freed[name]
        changed = set()
        for tensor, size in gone.tensors.items():
            self._users[tensor] -= 1
            # The last holder of a shared tensor would now free it.
            if self._users[tensor] == 1:
                (last,) = (holder for holder in self._holders[tensor] if holder in self._kept)
                self._freed[last] += size
                changed.add(last)
        earlier = self._earlier[name]
        for later in self._later.pop(name, ()):
            self._earlier[later] = earlier
            # Training it again now begins one snapshot earlier.
            self._seconds[later] += self._seconds[name]
            changed.add(later)
            if earlier is not None:
                self._later[earlier].append(later)
        for one in changed:
            if one in self._kept and self._kept[one].evictable:
                heapq.heappush(self._queue, (*self._rank(one), one))
        self._gone[name] = gone

    def back(self, name: str, quota_bytes: int) -> bool:
        """Keep a snapshot after all, if there is room."""
        one = self._gone[name]
        needed = sum(size for tensor, size in one.tensors.items() if not self._users[tensor])
        if self.nbytes + needed > quota_bytes:
            return False
        self.nbytes += needed
        self._users.update(one.tensors.keys())
        return True


def kept_snapshots(
    plan: SearchPlan, costs: Costs, kinds: Mapping[str, Collection[str]], tensors: Mapping[str, Mapping[Hashable, int]]
) -> Iterator[KeptSnapshot]:
    """Yield the stored snapshots of a plan, with the seconds to train each one again.

    Parameters
    ----------
    kinds:
        Name -> kinds of its labels; a snapshot that is missing here no longer exists.
    tensors:
        Name -> tensors -> bytes, as returned by :meth:`daskevo.repository.Repository.snapshot_tensors`.
    """
    for node in plan.nodes:
        for step, name in node.snapshots.items():
            if name in kinds and name in tensors:
                state = State(node.number, step)
                earlier = latest_snapshot(plan, state, before=True, among=kinds)
                yield KeptSnapshot(
                    name,
                    kinds[name],
                    tensors[name],
                    None if earlier is None else plan.nodes[earlier.node].snapshots[earlier.step],
                    _seconds(plan, costs, earlier, state),
                )


def _seconds(plan: SearchPlan, costs: Costs, earlier: State | None, state: State) -> float:
    total = costs.start_s
    for point in plan.path(state):
        if earlier is not None and point.node == earlier.node:
            return total + (point.step - earlier.step) * costs.step_s(point.node).seconds
        total += (point.step - plan.nodes[point.node].start) * costs.step_s(point.node).seconds
    return total
