"""Disk tier of a repository in memory: one scratch file for each tensor beyond the memory budget."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path

from daskevo.errors import CorruptRecord
from daskevo.store.files import remove, usable
from daskevo.store.pack import Array
from daskevo.store.segment import Segment
from daskevo.store.segment_tier import TensorKey
from daskevo.store.segment_writer import write_segment


class SpillTier(MutableMapping[TensorKey, Array]):
    """Tensors in scratch files. Only this object knows which file has which tensor, so they are lost with it.

    Each file is a segment of one tensor, so that damage raises an error instead of returning wrong weights.

    Parameters
    ----------
    folder:
        A folder for this object alone; files that an earlier process left there are removed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._segments: dict[TensorKey, Segment] = {}
        self._counter = itertools.count()
        self._lock = threading.Lock()
        with usable(self.folder.parent, "make a folder for spilled tensors", 0):
            os.makedirs(self.folder, exist_ok=True)
            for name in os.listdir(self.folder):
                if name.endswith((".spill", ".tmp")):
                    remove(self.folder / name)

    @property
    def payload_bytes(self) -> int:
        """Bytes of the tensors here."""
        with self._lock:
            return sum(segment.tensor_bytes for segment in self._segments.values())

    def __getitem__(self, key: TensorKey) -> Array:
        return self._reading(key, lambda segment: segment.read()[0])

    def range(self, key: TensorKey, start: int, stop: int) -> Array:
        """Return some bytes of one tensor, without checking its digest."""
        return self._reading(key, lambda segment: segment.range(0, start, stop))

    def _reading(self, key: TensorKey, read: Callable[[Segment], Array]) -> Array:
        while True:
            segment = self._segments[key]
            try:
                return read(segment)
            except CorruptRecord:
                # An error only if the file is the same: another thread may have replaced or deleted it meanwhile.
                if self._segments.get(key) is segment:
                    raise

    def __setitem__(self, key: TensorKey, array: Array) -> None:
        # A new file each time, since a reader may be in the old one.
        segment = write_segment(self.folder / f"{next(self._counter)}.spill", {0: array})
        with self._lock:
            old = self._segments.get(key)
            self._segments[key] = segment
        self._remove(old)

    def __delitem__(self, key: TensorKey) -> None:
        with self._lock:
            old = self._segments.pop(key)
        self._remove(old)

    def _remove(self, segment: Segment | None) -> None:
        # A file that can't be removed now (missing folder, read-only disk) is removed when the next process starts.
        if segment is not None:
            with contextlib.suppress(OSError):
                remove(segment.path)

    def __contains__(self, key: object) -> bool:
        return key in self._segments

    def __iter__(self) -> Iterator[TensorKey]:
        with self._lock:
            return iter(list(self._segments))

    def __len__(self) -> int:
        return len(self._segments)
