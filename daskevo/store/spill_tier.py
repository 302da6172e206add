"""The tier of a volatile repository on disk: one scratch file per tensor that didn't fit in memory."""

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
    """Tensors in scratch files. Which file holds which tensor is known to this object alone, and lost with it.

    Each file is a segment of one tensor: a damaged one is an error, not a wrong weight.

    Parameters
    ----------
    folder:
        This object's alone: what an earlier process left there is removed.
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
        """Return some bytes of one tensor, not compared with its digest."""
        return self._reading(key, lambda segment: segment.range(0, start, stop))

    def _reading(self, key: TensorKey, read: Callable[[Segment], Array]) -> Array:
        while True:
            segment = self._segments[key]
            try:
                return read(segment)
            except CorruptRecord:
                # Replaced or deleted by another thread since: then that one's word counts.
                if self._segments.get(key) is segment:
                    raise

    def __setitem__(self, key: TensorKey, array: Array) -> None:
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
        # What can't be removed now (the folder is gone, the disk read-only) goes when the next process starts.
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
