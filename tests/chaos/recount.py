"""What is left at the end, recounted from the ledger and from the files: nothing lost, dangling or leaked."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daskevo.errors import DaskevoError
from daskevo.store.root import Root
from daskevo.store.segment import Segment
from tests.chaos.ledger import Ledger, digests


@dataclass
class Recount:
    """What was found; `words` says each thing that isn't as it should be.

    Parameters
    ----------
    published:
        Models whose put was answered as stored.
    lost:
        Those that are neither there, bit by bit, nor gone by order.
    dangling:
        Tensors that a published model refers to and that can't be read.
    leaked_tensors, leaked_bytes:
        Tensors that are stored and that no published model uses; bytes of theirs.
    """

    published: int = 0
    lost: int = 0
    dangling: int = 0
    leaked_tensors: int = 0
    leaked_bytes: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.dangling or self.leaked_tensors or self.leaked_bytes or self.words)

    def _lose(self, words: str) -> None:
        self.lost += 1
        self.words.append(f"lost: {words}")

    def _leak(self, tensors: int, nbytes: int, words: str) -> None:
        self.leaked_tensors += tensors
        self.leaked_bytes += nbytes
        self.words.append(f"leaked: {words}: {tensors} tensors, {nbytes} bytes")


def recount(
    root: Path,
    scope: str,
    ledger: Ledger,
    reported: Collection[str],
    kept: Collection[str],
    states: Collection[str] = (),
) -> Recount:
    """Compare a repository that nobody uses with what callers were told.

    Parameters
    ----------
    ledger:
        What was answered.
    reported:
        Models that the search counts as finished.
    kept:
        Models that the search still holds: population and best.
    states:
        States of trainings that the search may still hold; some are missing where nothing goes on.
    """
    import daskevo

    repository = daskevo.open(root, scope)
    stored = {*ledger.stored, *reported}
    found = Recount(published=len(stored))
    there = {model.model_id for model in repository.models()}
    wanted = set(kept) - ledger.asked
    for name in sorted(stored | set(kept)):
        _look_for(name, repository, found, name in there, name in wanted, ledger)
    for name in sorted(there - set(kept) | there & ledger.retired):
        record = repository.record(name)
        found._leak(len(record.own), record.own_bytes, f"{name} is published, and nobody should hold it")
    snapshots = {snapshot.name for snapshot in repository.snapshots()}
    for name in sorted(snapshots - set(states)):
        record = repository.record(name)
        found._leak(len(record.own), record.own_bytes, f"{name} is published, and nothing goes on from it")
    for name in sorted(snapshots):
        try:
            repository.read_snapshot(name)
        except DaskevoError as error:
            found._lose(f"{name} can't be read: {error}")
    _count_tensors(root, repository, there | snapshots, found)
    verified = repository.verify()
    found.words += verified.to_json()["differences"]
    return found


def read_all(repository: Any, ledger: Ledger) -> list[str]:
    """Read every published model as a client does; return what can't be read or is not what was put, in words."""
    return [word for model in repository.models() for word in _read(model.model_id, repository, ledger)]


def _look_for(name: str, repository: Any, found: Recount, is_there: bool, is_wanted: bool, ledger: Ledger) -> None:
    if not is_there:
        state = repository.status(name).state
        if is_wanted:
            found._lose(f"{name} should be published, and is {state}")
        elif state not in ("retiring", "retired"):
            found._lose(f"{name} was stored, should be retired, and is {state}")
        return
    for words in _read(name, repository, ledger):
        found._lose(words)


def _read(name: str, repository: Any, ledger: Ledger) -> Iterator[str]:
    """Read a model; yield a line if it can't be read, and one for each caller who was told otherwise."""
    try:
        arrays = repository.read(name)
    except DaskevoError as error:
        yield f"{name} can't be read: {error}"
        return
    keys = repository.record(name).architecture.tensors
    now = digests(arrays[key.layer, key.index] for key in keys)
    for told in ledger.stored.get(name, []):
        if told != now:
            differing = sum(a != b for a, b in zip(told, now, strict=False)) + abs(len(told) - len(now))
            yield f"{name} is not what was put: {differing} of {len(told)} tensors differ"


def _count_tensors(root: Path, repository: Any, there: Collection[str], found: Recount) -> None:
    """Compare what published models refer to with what lies in the files."""
    needed = {(entry.owner, entry.number) for name in there for entry in repository.record(name).owner_map.entries}
    attempts = {owner: repository.status(owner).record.attempt for owner, _ in needed}
    lying: set[tuple[str, int]] = set()
    place = Root.open(root)
    for number in range(place.shards):
        for file in place.shard(number).segments():
            if file.temporary or attempts.get(file.model_id) != file.attempt:
                tensors = 0 if file.temporary else len(Segment.open(file.path).entries)
                found._leak(tensors, file.nbytes, f"nobody needs the file {file.path.name}")
            else:
                lying |= {(file.model_id, entry) for entry in Segment.open(file.path).entries}
    for owner, tensor in sorted(needed - lying):
        found.dangling += 1
        found.words.append(f"dangling: tensor {tensor} of {owner} is in no file")
    alive = repository.verify().tensors
    if alive > len(needed):
        found._leak(alive - len(needed), 0, f"{alive} tensors are kept, {len(needed)} are referred to")
