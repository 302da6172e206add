"""Disk tier of a repository with a root: one segment file per (model id, attempt), with an index of living tensors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import zict

from daskevo.errors import CorruptRecord
from daskevo.store.files import corrupt
from daskevo.store.mounts import may_be_mapped
from daskevo.store.pack import Array, round_up
from daskevo.store.segment import Replaced, Segment
from daskevo.store.segment_writer import write_segment
from daskevo.types import JSON, Attempt, ModelId

T = TypeVar("T")

TensorKey = tuple[ModelId, Attempt, int]
"""Owner model, the attempt that stored the tensor, tensor number at the owner."""

_HEADERS = 512
"""Most segment headers that are cached."""

LATE_READERS = 8
"""Most repetitions of a read whose cached header was replaced by readers of the old file."""

WASTE_BYTES = 1 << 20
"""Fewest dead bytes for which a file is rewritten."""


@dataclass(eq=False)
class _Live:
    """The living tensors of one file, with their sizes in bytes; a new object whenever the tensors may differ."""

    nbytes: dict[int, int]
    payload_bytes: int
    file_bytes: int


class SegmentTier(MutableMapping[TensorKey, Array]):
    """Tensors in segment files. The caller tells which ones are alive, from the shard's records, or by writing them.

    A deleted tensor can't be read any more. Its bytes stay until the shard's owner deletes the file
    (:meth:`daskevo.store.shard_folder.ShardFolder.delete`), after the record that allows it.

    Parameters
    ----------
    locate:
        Returns the file of a model's attempt.
    sync:
        Whether files survive a crash of the host when a write returns.
    """

    def __init__(self, locate: Callable[[ModelId, Attempt], Path], *, sync: bool = False) -> None:
        self._locate = locate
        self._sync = sync
        self._lock = threading.Lock()
        # `_lock` guards the index and is held briefly; a write lock, chosen by the file's key, is held during I/O.
        self._write_locks = [threading.RLock() for _ in range(16)]
        self._live: dict[tuple[ModelId, Attempt], _Live] = {}
        self._headers: Any = zict.LRU(_HEADERS, {})
        self._shrunk: set[tuple[ModelId, Attempt]] = set()
        """Files that hold dead tensors."""

    def put(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> None:
        """Write a model's tensors as one segment; replace an older one of that attempt."""
        facts = {"model_id": model_id, "attempt": list(attempt), "extra": meta}
        with self._writing(model_id, attempt):
            segment = write_segment(self._locate(model_id, attempt), tensors, facts, sync=self._sync, known=known)
            self._know(model_id, attempt, segment, segment.entries)

    def adopt(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int] | None = None) -> None:
        """Add an existing file, with the numbers of its living tensors (default: all)."""
        segment = Segment.open(self._locate(model_id, attempt)).of(model_id, attempt)
        self.take(model_id, attempt, segment, segment.entries if numbers is None else numbers)

    def take(self, model_id: ModelId, attempt: Attempt, segment: Segment, numbers: Iterable[int]) -> None:
        """Add a segment that was just opened, with the numbers of its living tensors."""
        wanted = set(numbers)
        self._know(model_id, attempt, _having(segment, wanted), wanted)

    def expect(self, model_id: ModelId, attempt: Attempt, nbytes: Mapping[int, int], file_bytes: int) -> None:
        """Add a file whose tensors are all alive according to its record, without opening it; its first reader does.

        Parameters
        ----------
        nbytes:
            Tensor number -> its size in bytes.
        """
        payload = sum(map(round_up, nbytes.values()))
        with self._lock:
            self._headers.discard((model_id, attempt))
            self._shrunk.discard((model_id, attempt))
            self._live[model_id, attempt] = _Live(dict(nbytes), payload, file_bytes)

    def segment(self, model_id: ModelId, attempt: Attempt, numbers: Collection[int]) -> Segment:
        """Return the open segment of living tensors; raise the errors of `read`."""
        self._check(model_id, attempt, numbers)
        return _having(self._segment(model_id, attempt), numbers)

    def read(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> dict[int, Array]:
        """Return tensors of one file; raise KeyError if one isn't alive, CorruptRecord or RootUnusable."""
        wanted = list(numbers)
        return self._reading(model_id, attempt, wanted, lambda segment: segment.read(wanted))

    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        """Return some bytes of one tensor, without checking its digest; raise the errors of `read`."""
        return self._reading(key[0], key[1], [key[2]], lambda segment: segment.range(key[2], start, stop))

    def _reading(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int], read: Callable[[Segment], T]) -> T:
        self._check(model_id, attempt, numbers)
        try:
            return read(self._segment(model_id, attempt))
        except (CorruptRecord, KeyError):
            # The file may have been rewritten, with another header: read it again while the lock keeps writers out.
            # Readers of the old file may put its header back into the cache meanwhile, so try several times.
            with self._writing(model_id, attempt):
                for _ in range(LATE_READERS):
                    self._headers.discard((model_id, attempt))
                    with contextlib.suppress(Replaced):
                        return read(self._segment(model_id, attempt))
                self._headers.discard((model_id, attempt))
                return read(self._segment(model_id, attempt))

    def _check(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        for number in numbers:
            if (model_id, attempt, number) not in self:
                raise KeyError((model_id, attempt, number))

    def half_dead(self) -> list[tuple[ModelId, Attempt]]:
        """Return the files with at least half of their bytes, and at least `WASTE_BYTES`, dead."""
        found = []
        for key in list(self._shrunk):
            live = self._live.get(key)
            if live is not None:
                dead = live.payload_bytes - sum(list(live.nbytes.values()))
                if dead >= max(WASTE_BYTES, live.payload_bytes / 2):
                    found.append(key)
        return found

    def rewrite(self, model_id: ModelId, attempt: Attempt, allow: Callable[[], object]) -> int:
        """Replace a file by one with its living tensors only, and return the bytes freed.

        Readers that have mapped the old file keep it. Readers that know only offsets in it see that the file's identity
        has changed, and read the new header. Other operations do not wait: tensors that die meanwhile are in the new
        file, and a file that is deleted meanwhile must be deleted again.

        Parameters
        ----------
        model_id, attempt:
            Of a published model, whose file has no writer any more.
        allow:
            Called once the tensors to leave out are determined; it flushes the records that freed them, and raises if
            the shard has another owner.
        """
        path = self._locate(model_id, attempt)
        with self._lock:
            live = self._live.get((model_id, attempt))
            numbers = set() if live is None else set(live.nbytes)
        if not numbers:
            return 0
        allow()
        old = Segment.open(path).of(model_id, attempt)
        mapped = may_be_mapped(path.parent)
        if mapped:
            # Read everything once without the map: a page that can't be read raises an error then, and would kill the
            # process in a map.
            old.check(numbers)
        tensors = old.read(numbers, check=not mapped, mapped=mapped)
        digests = {number: old.entries[number].digest for number in numbers}
        new = write_segment(path, tensors, old.meta, sync=self._sync, known=digests)
        with self._lock:
            live = self._live.get((model_id, attempt))
            if live is not None:
                self._headers[model_id, attempt] = new
                live.payload_bytes, live.file_bytes = new.payload_bytes, new.file_bytes
                if live.nbytes.keys() == numbers:
                    self._shrunk.discard((model_id, attempt))
        return old.file_bytes - new.file_bytes

    def token(self, model_id: ModelId, attempt: Attempt) -> object:
        """Return an object that is the same as long as the file's tensors are; None if none of them is alive."""
        return self._live.get((model_id, attempt))

    @property
    def payload_bytes(self) -> int:
        """Bytes of all living tensors."""
        with self._lock:
            return sum(sum(live.nbytes.values()) for live in self._live.values())

    @property
    def file_bytes(self) -> int:
        """Bytes of the files with living tensors."""
        with self._lock:
            return sum(live.file_bytes for live in self._live.values())

    def _writing(self, model_id: ModelId, attempt: Attempt) -> threading.RLock:
        return self._write_locks[hash((model_id, attempt)) % len(self._write_locks)]

    def _segment(self, model_id: ModelId, attempt: Attempt) -> Segment:
        try:
            return self._headers[model_id, attempt]  # type: ignore[no-any-return]
        except KeyError:
            segment = Segment.open(self._locate(model_id, attempt)).of(model_id, attempt)
            self._headers[model_id, attempt] = segment
            return segment

    def _know(self, model_id: ModelId, attempt: Attempt, segment: Segment, numbers: Iterable[int]) -> None:
        with self._lock:
            self._headers[model_id, attempt] = segment
            nbytes = {number: segment.entries[number].spec.nbytes for number in numbers}
            self._live.pop((model_id, attempt), None)
            self._shrunk.discard((model_id, attempt))
            if nbytes:
                self._live[model_id, attempt] = _Live(nbytes, segment.payload_bytes, segment.file_bytes)
                if len(nbytes) < len(segment.entries):
                    self._shrunk.add((model_id, attempt))

    def __getitem__(self, key: TensorKey) -> Array:
        return self.read(key[0], key[1], [key[2]])[key[2]]

    def __setitem__(self, key: TensorKey, array: Array) -> None:
        model_id, attempt, number = key
        with self._writing(model_id, attempt):
            tensors: dict[int, Any] = {}
            meta = None
            if (live := self._live.get((model_id, attempt))) is not None:
                tensors.update(self.read(model_id, attempt, set(live.nbytes) - {number}))
                meta = self._segment(model_id, attempt).meta["extra"]
            self.put(model_id, attempt, tensors | {number: array}, meta)

    def __delitem__(self, key: TensorKey) -> None:
        model_id, attempt, number = key
        with self._writing(model_id, attempt):
            self._check(model_id, attempt, [number])
            self.free(model_id, attempt, [number])

    def free(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        """Free several tensors of one file; those that are freed already are ignored."""
        with self._writing(model_id, attempt), self._lock:
            live = self._live.get((model_id, attempt))
            if live is None:
                return
            for number in numbers:
                if live.nbytes.pop(number, None) is not None:
                    self._shrunk.add((model_id, attempt))
            if not live.nbytes:
                self._shrunk.discard((model_id, attempt))
                del self._live[model_id, attempt]
                self._headers.discard((model_id, attempt))

    def __contains__(self, key: object) -> bool:
        if not (isinstance(key, tuple) and len(key) == 3):
            return False
        live = self._live.get(key[:2])
        return live is not None and key[2] in live.nbytes

    def __iter__(self) -> Iterator[TensorKey]:
        with self._lock:
            keys = [(*owner, number) for owner, live in self._live.items() for number in live.nbytes]
        return iter(keys)

    def __len__(self) -> int:
        with self._lock:
            return sum(len(live.nbytes) for live in self._live.values())


def _having(segment: Segment, numbers: Iterable[int]) -> Segment:
    if lacking := set(numbers) - segment.entries.keys():
        raise corrupt(segment.path, f"tensors {sorted(lacking)[:10]} aren't in it", 0)
    return segment
