"""The tier whose truth is on disk: one segment file per (model id, attempt), an index of what is alive in memory."""

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
"""Owner model, the attempt that stored it, tensor number in the owner's enumeration."""

_HEADERS = 512

LATE_READERS = 8
"""So many readers of an old header may get in the way of one that looks again."""

WASTE_BYTES = 1 << 20
"""Fewer dead bytes than this are not worth another file."""


@dataclass(eq=False)
class _Live:
    """The live tensors of one file, with their sizes in bytes. A new object whenever the tensors may be others."""

    nbytes: dict[int, int]
    payload_bytes: int
    file_bytes: int


class SegmentTier(MutableMapping[TensorKey, Array]):
    """Tensors in segment files. Which of them are alive is told by `adopt`, or by writing; the shard's records know.

    A tensor that is deleted is out of reach at once. Its bytes go with the file, which the shard's owner deletes
    (:meth:`daskevo.store.shard_folder.ShardFolder.delete`) after the record that allows it.

    Parameters
    ----------
    locate:
        Returns the file of a model's attempt.
    sync:
        Whether files survive the host when a write returns.
    """

    def __init__(self, locate: Callable[[ModelId, Attempt], Path], *, sync: bool = False) -> None:
        self._locate = locate
        self._sync = sync
        self._lock = threading.Lock()
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
        """Write a model's tensors as one segment; an older one of that attempt is replaced."""
        facts = {"model_id": model_id, "attempt": list(attempt), "extra": meta}
        with self._writing(model_id, attempt):
            segment = write_segment(self._locate(model_id, attempt), tensors, facts, sync=self._sync, known=known)
            self._know(model_id, attempt, segment, segment.entries)

    def adopt(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int] | None = None) -> None:
        """Take in a file that is there, with the tensors in it that are alive (default: all)."""
        segment = Segment.open(self._locate(model_id, attempt)).of(model_id, attempt)
        self.take(model_id, attempt, segment, segment.entries if numbers is None else numbers)

    def take(self, model_id: ModelId, attempt: Attempt, segment: Segment, numbers: Iterable[int]) -> None:
        """Take in a segment that was opened just now, with the tensors in it that are alive."""
        wanted = set(numbers)
        self._know(model_id, attempt, _having(segment, wanted), wanted)

    def expect(self, model_id: ModelId, attempt: Attempt, nbytes: Mapping[int, int], file_bytes: int) -> None:
        """Take in a file all of whose tensors are alive, as its record says, unseen: its first reader looks at it.

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
        """Return the open segment of tensors that are alive; raises as `read` does."""
        self._check(model_id, attempt, numbers)
        return _having(self._segment(model_id, attempt), numbers)

    def read(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> dict[int, Array]:
        """Return tensors of one file; raises KeyError if one isn't alive, CorruptRecord or RootUnusable."""
        wanted = list(numbers)
        return self._reading(model_id, attempt, wanted, lambda segment: segment.read(wanted))

    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        """Return some bytes of one tensor, not compared with its digest; raises as `read` does."""
        return self._reading(key[0], key[1], [key[2]], lambda segment: segment.range(key[2], start, stop))

    def _reading(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int], read: Callable[[Segment], T]) -> T:
        self._check(model_id, attempt, numbers)
        try:
            return read(self._segment(model_id, attempt))
        except (CorruptRecord, KeyError):
            # A file written anew has another header: look again, while nobody writes. Readers that have read the old
            # one before may still keep it meanwhile.
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
        """Return the files of which half or more, and a megabyte or more, is dead."""
        found = []
        for key in list(self._shrunk):
            live = self._live.get(key)
            if live is not None:
                dead = live.payload_bytes - sum(list(live.nbytes.values()))
                if dead >= max(WASTE_BYTES, live.payload_bytes / 2):
                    found.append(key)
        return found

    def rewrite(self, model_id: ModelId, attempt: Attempt, allow: Callable[[], object]) -> int:
        """Write what is alive of a file to a new one that takes its name, and return the bytes that this gave back.

        Whoever has mapped the old file keeps it; whoever knows only where tensors lay in it finds another identity,
        and looks again. Nothing waits for it: what dies meanwhile is in the new file too, what is deleted meanwhile
        must be deleted again.

        Parameters
        ----------
        model_id, attempt:
            Of a published model: nobody writes its file any more.
        allow:
            Called when it is settled which tensors are left out: flushes the records by which they have died, and
            raises if the shard is another's.
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
            # What can't be read is to be told by a read: in a map it would end the process.
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
        """Return an object that stays the same as long as the file does; None if nothing of it is alive."""
        return self._live.get((model_id, attempt))

    @property
    def payload_bytes(self) -> int:
        """Bytes of the tensors that are alive."""
        with self._lock:
            return sum(sum(live.nbytes.values()) for live in self._live.values())

    @property
    def file_bytes(self) -> int:
        """Bytes of the files that they are in."""
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
        with self._writing(model_id, attempt), self._lock:
            live = self._live.get((model_id, attempt))
            if live is None:
                raise KeyError(key)
            try:
                del live.nbytes[number]
            except KeyError:
                raise KeyError(key) from None
            self._shrunk.add((model_id, attempt))
            if not live.nbytes:
                self._shrunk.discard((model_id, attempt))
                del self._live[model_id, attempt]
                self._headers.discard((model_id, attempt))

    def free(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        """Forget several tensors of one file at once; those that have gone already are as good."""
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
