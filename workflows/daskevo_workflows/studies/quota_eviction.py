"""Makes room in a full repository for a state that is needed: snapshots that cost least to train again are let go."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from daskevo.errors import ClusterError, ModelLost, ModelRetired, RepositoryError, UnknownModel
from daskevo.tuning import KeptSnapshot, kept_snapshots, make_room
from daskevo_workflows.studies.controller import Controller

logger = logging.getLogger(__name__)

ROUNDS = 5
"""So many times room is made for a state, twice as much each time: a provider has but a share of the quota."""

GONE = (ModelRetired, ModelLost, UnknownModel)


class EvictionStore(Protocol):
    """What of a repository is used here."""

    def release(self, model_id: str, label: str) -> Any: ...

    def snapshots(self) -> Any: ...

    def snapshot_tensors(self, names: Iterable[str]) -> Any: ...

    def stats(self) -> Any: ...


def release_all(store: EvictionStore, name: str, labels: Iterable[str]) -> None:
    """Release labels of a snapshot, which may be gone by now."""
    for label in labels:
        try:
            store.release(name, label)
        except GONE:
            return


class RoomMaker:
    """Of one study; made and called in the controller's thread.

    Parameters
    ----------
    controller:
        Whose plan, costs and crew these are.
    store:
        The repository.
    own:
        The study's labels.
    later:
        Has something done in the thread that talks to the repository.
    lose:
        Takes in that snapshots are not there any more.
    note:
        Stores something that happened in the study's record.
    """

    def __init__(
        self,
        controller: Controller,
        store: EvictionStore,
        own: Collection[str],
        *,
        later: Callable[[Callable[[], None]], None],
        lose: Callable[[Iterable[str]], None],
        note: Callable[..., None],
    ) -> None:
        self._controller, self._store, self._own = controller, store, frozenset(own)
        self._later, self._lose, self._note = later, lose, note
        self._rounds: Counter[tuple[str, int]] = Counter()

    def make(self, work: str, step: int, nbytes: int) -> None:
        """Make room for a work's state of so many bytes, and tell the crew whether that was done."""
        tries = self._rounds[work, step]
        self._rounds[work, step] += 1
        if tries >= ROUNDS:
            self._controller.crew.room(work, False)
            return
        names = {name for node in self._controller.plan.nodes for name in node.snapshots.values()}

        def look() -> None:
            try:
                labels = {str(row.name): tuple(row.labels) for row in self._store.snapshots() if row.name in names}
                tensors = self._store.snapshot_tensors(labels)
            except (RepositoryError, ClusterError) as error:
                logger.info("no room can be made: %s", error)
                labels, tensors = {}, {}
            self._controller.post(lambda: self._decide(work, nbytes * 2**tries, nbytes, labels, tensors))

        self._later(look)

    def _decide(
        self,
        work: str,
        wanted: int,
        least: int,
        labels: Mapping[str, tuple[str, ...]],
        tensors: Mapping[str, Mapping[Any, int]],
    ) -> None:
        """Choose what goes. Meanwhile somebody may have come to need some of it."""
        # The study's own labels may be about to be changed: what it needs now counts.
        kinds = {
            name: {"cache" if label in self._own else label.partition(":")[0] for label in several}
            for name, several in labels.items()
        }
        for name in self._controller.begun_with() & kinds.keys():
            kinds[name].add("request")
        kept = list(kept_snapshots(self._controller.plan, self._controller.scheduler.costs, kinds, tensors))
        gone = make_room(kept, wanted) or make_room(kept, least)
        if not gone:
            self._controller.crew.room(work, False)
            return
        self._note_evicted([one for one in kept if one.name in gone])
        self._lose(gone)

        def let_go() -> None:
            made = True
            try:
                for name in gone:
                    release_all(self._store, name, labels[name])
                self._store.stats()  # once it answers, what was retired before has been freed
            except (RepositoryError, ClusterError) as error:
                logger.info("no room could be made: %s", error)
                made = False
            self._controller.post(lambda: self._controller.crew.room(work, made))

        self._later(let_go)

    def _note_evicted(self, gone: Sequence[KeptSnapshot]) -> None:
        seconds = sum(one.seconds for one in gone)
        words = (
            f"the repository is full: {len(gone)} snapshots that nobody needs now were let go for one that is needed; "
            f"to train them again would take {seconds:,.0f} s"
        )
        self._note("evicted", words, snapshots=len(gone), seconds=seconds)
