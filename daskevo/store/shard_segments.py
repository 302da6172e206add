"""The segment files of a shard's folder: written, opened and listed by anyone, whoever owns the shard."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from daskevo.errors import RootUnusable
from daskevo.store.files import Durability, refuse_links, remove, sync_folder, usable
from daskevo.store.segment import Segment
from daskevo.store.segment_names import segment_files, segment_name
from daskevo.store.segment_writer import write_segment
from daskevo.store.shard_state import lost, shard_path, was_served
from daskevo.types import JSON, Attempt, ModelId


class SegmentFile(NamedTuple):
    """A file of the segments folder. A temporary one is being written, or its writer has died."""

    model_id: ModelId
    attempt: Attempt
    path: Path
    nbytes: int
    temporary: bool


class ShardSegments:
    """The segments of a shard on disk.

    Parameters
    ----------
    root:
        The repository's folder.
    number:
        The shard's number.
    durability:
        What a flush promises.
    """

    def __init__(self, root: str | os.PathLike[str], number: int, *, durability: Durability = "written") -> None:
        self.number = number
        self.path = shard_path(root, number)
        self.segments_path = self.path / "segments"
        self._sync = durability == "synced"

    def segment_path(self, model_id: ModelId, attempt: Attempt) -> Path:
        """Return the file of the tensors that an attempt stored for a model."""
        return self.segments_path / segment_name(model_id, attempt)

    def write_segment(
        self,
        model_id: ModelId,
        attempt: Attempt,
        tensors: Mapping[int, Any],
        meta: JSON = None,
        known: Mapping[int, str] | None = None,
    ) -> Segment:
        """Write a model's own tensors; see :func:`daskevo.store.segment_writer.write_segment`.

        It replaces nothing that counts: an attempt is one holder's, who writes the same tensors again or none.
        """
        path = self.segment_path(model_id, attempt)
        # Before each: what is written there would lie elsewhere.
        refuse_links(self.path, self.segments_path)
        if not self.segments_path.is_dir():
            with usable(self.path, "make the folder of a shard", 0):
                self._make_folders()
        facts = {"model_id": model_id, "attempt": list(attempt), "extra": meta}
        return write_segment(path, tensors, facts, sync=self._sync, known=known)

    def withdraw_segment(self, model_id: ModelId, attempt: Attempt) -> None:
        """Remove the file that this writer wrote for an attempt which home has aborted: no record will ever name it."""
        with usable(self.segments_path, "remove a segment"):
            remove(self.segment_path(model_id, attempt))

    def open_segment(self, model_id: ModelId, attempt: Attempt) -> Segment:
        """Open the segment of an attempt, and make sure that it is that one's.

        Raises
        ------
        CorruptRecord
            If it is missing, damaged, or another attempt's.
        """
        return Segment.open(self.segment_path(model_id, attempt)).of(model_id, attempt)

    def segments(self) -> Iterator[SegmentFile]:
        """Yield the files of the segments folder, temporary ones included, in no order; foreign files aren't named."""
        for model_id, attempt, path, temporary in segment_files(self.segments_path):
            with usable(self.segments_path, "list segments"), contextlib.suppress(FileNotFoundError):
                yield SegmentFile(model_id, attempt, path, path.stat().st_size, temporary)

    def _make_folders(self) -> None:
        if not self.path.exists() and was_served(self.path):
            raise lost(self.path, "the shard was served once, but its folder is gone")
        # One level at a time: a root that has vanished must not come back as empty folders.
        for folder in (self.path, self.segments_path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            if self._sync:
                # Also if it was there: who made it may have died before its name was synced.
                sync_folder(folder.parent)

    def _remove_segments(self, attempts: Collection[tuple[ModelId, Attempt]], *, temporary: bool) -> int:
        paths = [self.segment_path(*attempt) for attempt in attempts]
        if temporary:
            paths += [
                path
                for model_id, attempt, path, unfinished in segment_files(self.segments_path)
                if unfinished and (model_id, attempt) in attempts
            ]
        freed, failed = 0, None
        for path in paths:
            try:
                with usable(self.segments_path, "delete a segment"), contextlib.suppress(FileNotFoundError):
                    nbytes = path.stat().st_size
                    os.unlink(path)
                    freed += nbytes
            except RootUnusable as error:
                failed = failed or error  # one that can't go keeps no other
        if failed is not None:
            raise failed
        return freed
