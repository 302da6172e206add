"""A provider's tensors: in memory up to a budget, and on disk.

Two classes with one interface. `DurableTensors`, for a repository with a root: segment files are the truth, memory is a
cache. `SpillingTensors`, for one without: memory is the truth, and tensors beyond the budget are in a scratch folder.
"""

from __future__ import annotations

import contextlib
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import zict

from daskevo.errors import RootUnusable
from daskevo.store.pack import Array, raw, snapshot
from daskevo.store.segment_tier import SegmentTier, TensorKey
from daskevo.store.spill_tier import SpillTier
from daskevo.types import JSON, Attempt, ModelId


class Tensors(MutableMapping[TensorKey, Array]):
    """Tensors by (owner model id, attempt that stored them, tensor number). Values are read-only arrays.

    Thread-safe. Methods may wait for the disk: call them from a thread, not from an event loop.
    A writable array that is put in is copied; a read-only one is kept as it is.
    """

    @abstractmethod
    def put(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> None:
        """Store the tensors of an attempt: all of them or, on an error, none.

        Parameters
        ----------
        tensors:
            Arrays by tensor number.
        meta:
            JSON for the segment's header.
        known:
            Digests that are known already, by number.

        Raises
        ------
        RootUnusable
            If the disk is full or gone; tensors stored before are kept.
        """

    @abstractmethod
    def read(self, keys: Iterable[TensorKey]) -> dict[TensorKey, Array]:
        """Return several tensors, with few reads of the disk.

        Raises
        ------
        KeyError
            If one of them is not stored.
        CorruptRecord, RootUnusable
            If a file is damaged, or can't be read.
        """

    @abstractmethod
    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        """Return bytes `start` to `stop` of one tensor, shape (stop - start,), dtype uint8, not compared with a digest.

        For tensors too large for one message; the cache is not filled. Raises the errors of `read`.
        """

    def free(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        """Free tensors without references; those that are freed already are ignored."""
        for number in numbers:
            with contextlib.suppress(KeyError):
                del self[model_id, attempt, number]

    @abstractmethod
    def allow(self, nbytes: int) -> None:
        """Set the memory budget; tensors beyond it leave memory with the next `put`, `read` or `shrink`."""

    @abstractmethod
    def shrink(self) -> None:
        """Remove tensors beyond the budget from memory.

        Raises
        ------
        RootUnusable
            If they have to be written, and the disk is full or gone: they stay in memory.
        """

    @abstractmethod
    def evict(self) -> int:
        """Remove the least recently used tensor from memory.

        Returns
        -------
        Its bytes, or -1 if there is none or it can't be written, as Dask expects of a mapping that can spill.
        """

    @property
    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes of tensors in memory."""

    @property
    @abstractmethod
    def payload_bytes(self) -> int:
        """Bytes of all stored tensors, each counted once."""

    @property
    def stored_bytes(self) -> int:
        """Bytes that count towards the quota: all stored tensors, and dead ones in files that are still in use."""
        return self.payload_bytes


class DurableTensors(Tensors):
    """Segment files with a cache of recently used tensors in memory; tensors are written to disk first.

    Parameters
    ----------
    locate:
        Returns the segment file of a model's attempt.
    memory_bytes:
        Budget of the cache. A tensor larger than it is never cached.
    sync:
        Whether tensors survive a crash of the host (fsync) when `put` returns.
    """

    def __init__(self, locate: Callable[[ModelId, Attempt], Path], memory_bytes: int, *, sync: bool = False) -> None:
        self.segments = SegmentTier(locate, sync=sync)
        self._cache: Any = zict.LRU(memory_bytes, {}, weight=_weight)

    def put(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> None:
        # Frozen before they are written: the caller must not change what is hashed, written and cached.
        arrays = {number: snapshot(array) for number, array in tensors.items()}
        self.segments.put(model_id, attempt, arrays, meta, known)
        token = self.segments.token(model_id, attempt)
        for number, array in arrays.items():
            self._remember((model_id, attempt, number), array, token)

    def adopt(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int] | None = None) -> None:
        """Add an existing segment file, written by another process on this host or by an earlier owner.

        Parameters
        ----------
        numbers:
            Numbers of its living tensors; None: all.

        Raises
        ------
        CorruptRecord
            If the file is missing, damaged, or lacks one of the tensors.
        """
        self.segments.adopt(model_id, attempt, numbers)

    def read(self, keys: Iterable[TensorKey]) -> dict[TensorKey, Array]:
        found: dict[TensorKey, Array] = {}
        missing: dict[tuple[ModelId, Attempt], list[int]] = {}
        for key in keys:
            if key not in self.segments:
                raise KeyError(key)
            try:
                found[key] = self._cache[key]
            except KeyError:
                missing.setdefault(key[:2], []).append(key[2])
        for (model_id, attempt), numbers in missing.items():
            # Taken before reading: `_remember` compares it to find out whether the file has changed meanwhile.
            token = self.segments.token(model_id, attempt)
            for number, array in self.segments.read(model_id, attempt, numbers).items():
                found[model_id, attempt, number] = array
                self._remember((model_id, attempt, number), array, token)
        return found

    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        return self.segments.range(key, start, stop)

    def free(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        going = list(numbers)
        # Before the cache: a concurrent read could put a tensor back into the cache otherwise.
        self.segments.free(model_id, attempt, going)
        self.forget(model_id, attempt, going)

    @property
    def memory_bytes(self) -> int:
        return int(self._cache.total_weight)

    @property
    def payload_bytes(self) -> int:
        return self.segments.payload_bytes

    @property
    def stored_bytes(self) -> int:
        return self.segments.file_bytes

    def allow(self, nbytes: int) -> None:
        self._cache.n = nbytes

    def shrink(self) -> None:
        self._cache.evict_until_below_target()

    def evict(self) -> int:
        return _evicted(self._cache)

    def cached(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> dict[int, Array]:
        """Return the tensors of one file that are in memory, without marking them as recently used."""
        with self._cache.lock:
            keys = [(model_id, attempt, number) for number in numbers]
            return {key[2]: self._cache.d[key] for key in keys if key in self._cache.d}

    def forget(self, model_id: ModelId, attempt: Attempt, numbers: Iterable[int]) -> None:
        """Remove tensors of one file from memory; they stay on disk."""
        for number in numbers:
            self._cache.discard((model_id, attempt, number))

    def _remember(self, key: TensorKey, array: Array, token: object) -> None:
        # If the file was replaced or freed while it was read, the array is stale and must not be cached.
        with self._cache.lock:
            if key in self.segments and self.segments.token(*key[:2]) is token:
                self._cache[key] = array

    def __getitem__(self, key: TensorKey) -> Array:
        return self.read([key])[key]

    def __setitem__(self, key: TensorKey, array: Array) -> None:
        array = snapshot(array)
        self._cache.discard(key)
        self.segments[key] = array
        self._remember(key, array, self.segments.token(*key[:2]))

    def __delitem__(self, key: TensorKey) -> None:
        # The cache last, as in `free`.
        del self.segments[key]
        self._cache.discard(key)

    def __contains__(self, key: object) -> bool:
        return key in self.segments

    def __iter__(self) -> Iterator[TensorKey]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)


class SpillingTensors(Tensors):
    """Tensors in memory; the least recently used ones beyond the budget are spilled to a scratch folder.

    All are lost with the process.

    Parameters
    ----------
    folder:
        A scratch folder for this object alone, which is emptied first.
    memory_bytes:
        Budget of the memory.
    """

    def __init__(self, folder: str | Path, memory_bytes: int) -> None:
        self.spilled = SpillTier(folder)
        self._buffer: Any = zict.Buffer({}, self.spilled, memory_bytes, weight=_weight)
        # Chosen by the key's hash: readers of different keys rarely wait for each other.
        self._restoring = [threading.Lock() for _ in range(16)]

    def put(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> None:
        arrays = {(model_id, attempt, number): snapshot(array) for number, array in tensors.items()}
        before = {key: array for key in arrays if (array := self.get(key)) is not None}
        try:
            for key, array in arrays.items():
                self._buffer[key] = array
        except RootUnusable:
            for key in arrays:
                with contextlib.suppress(KeyError):
                    del self._buffer[key]
                if key in before:
                    # Without eviction, which would fail again: exceeding the budget is better than losing a tensor.
                    self._buffer.set_noevict(key, before[key])
            raise

    def read(self, keys: Iterable[TensorKey]) -> dict[TensorKey, Array]:
        return {key: self[key] for key in keys}

    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        with contextlib.suppress(KeyError):
            return raw(self._buffer.fast.d[key])[start:stop]
        with contextlib.suppress(KeyError):
            return self.spilled.range(key, start, stop)
        # It was moved between memory and disk after the first look-up.
        return raw(self[key])[start:stop]

    @property
    def memory_bytes(self) -> int:
        return int(self._buffer.fast.total_weight)

    @property
    def payload_bytes(self) -> int:
        return self.memory_bytes + self.spilled.payload_bytes

    def allow(self, nbytes: int) -> None:
        self._buffer.n = nbytes

    def shrink(self) -> None:
        self._buffer.evict_until_below_target()

    def evict(self) -> int:
        return _evicted(self._buffer.fast)

    def __getitem__(self, key: TensorKey) -> Array:
        with contextlib.suppress(KeyError):
            return self._buffer.fast[key]  # type: ignore[no-any-return]
        # zict handles keys that are set or deleted while they are read. But if two readers restore the same key, the
        # second one gets a KeyError, so only one reader restores a key at a time.
        with self._restoring[hash(key) % len(self._restoring)]:
            try:
                return self._buffer[key]  # type: ignore[no-any-return]
            except RootUnusable:
                # Restoring a value to memory spills another one, which fails on a full disk. The value itself is still
                # in memory or in its file.
                with contextlib.suppress(KeyError):
                    return self._buffer.fast.d[key]  # type: ignore[no-any-return]
                return self.spilled[key]

    def __setitem__(self, key: TensorKey, array: Array) -> None:
        self.put(key[0], key[1], {key[2]: array})

    def __delitem__(self, key: TensorKey) -> None:
        del self._buffer[key]

    def __contains__(self, key: object) -> bool:
        return key in self._buffer

    def __iter__(self) -> Iterator[TensorKey]:
        return iter(self._buffer)

    def __len__(self) -> int:
        return len(self._buffer)


def _evicted(lru: Any) -> int:
    with contextlib.suppress(KeyError, RootUnusable):
        return int(lru.evict()[2])
    return -1


def _weight(key: TensorKey, array: Array) -> int:
    return array.nbytes
