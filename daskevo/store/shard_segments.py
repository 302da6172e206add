"""Segment files of a shard's folder, which any process may write, open and list without owning the shard."""

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
    """A file of the segments folder; a temporary one is being written, or was left by a dead writer."""

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
        Durability of written segments.
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

        Replacing a file is safe: an attempt has one holder, which writes the same tensors again or none.
        """
        path = self.segment_path(model_id, attempt)
        # Checked before each write: with a link, the file would be written outside the root.
        refuse_links(self.path, self.segments_path)
        if not self.segments_path.is_dir():
            with usable(self.path, "make the folder of a shard", 0):
                self._make_folders()
        facts = {"model_id": model_id, "attempt": list(attempt), "extra": meta}
        return write_segment(path, tensors, facts, sync=self._sync, known=known)

    def withdraw_segment(self, model_id: ModelId, attempt: Attempt) -> None:
        """Remove the file of an attempt that its shard has aborted, so that no record will ever name it."""
        with usable(self.segments_path, "remove a segment"):
            remove(self.segment_path(model_id, attempt))

    def open_segment(self, model_id: ModelId, attempt: Attempt) -> Segment:
        """Open the segment of an attempt, and check that its header names it.

        Raises
        ------
        CorruptRecord
            If it is missing, damaged, or belongs to another attempt.
        """
        return Segment.open(self.segment_path(model_id, attempt)).of(model_id, attempt)

    def segments(self) -> Iterator[SegmentFile]:
        """Yield the segment files, temporary ones included, in no particular order; foreign files are left out."""
        for model_id, attempt, path, temporary in segment_files(self.segments_path):
            with usable(self.segments_path, "list segments"), contextlib.suppress(FileNotFoundError):
                yield SegmentFile(model_id, attempt, path, path.stat().st_size, temporary)

    def _make_folders(self) -> None:
        if not self.path.exists() and was_served(self.path):
            raise lost(self.path, "the shard was served once, but its folder is gone")
        # Not with `makedirs`: if the root has vanished, it must not be created again as empty folders.
        for folder in (self.path, self.segments_path):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            if self._sync:
                # Also if it existed: the process that created it may have died before it synced the name.
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
                failed = failed or error  # go on with the others
        if failed is not None:
            raise failed
        return freed
