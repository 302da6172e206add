"""Receive the tensors of a put at the shard's provider: by reference, in messages, or in a file of the writer.

They are compared with the put's record before any record in the journal names them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.protocol.limits import MAX_RECORD_BYTES
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.records import Staged
from daskevo.provider.published_models import summary_of
from daskevo.provider.upload_buffer import UploadBuffers
from daskevo.store.files import dump_json
from daskevo.store.shard_folder import ShardFolder
from daskevo.store.tiers import DurableTensors, Tensors
from daskevo.types import TensorSpec
from daskevo.wire.tensor_framing import ReceiveBuffer, nbytes_of

Array = np.ndarray[Any, Any]


class Unseen(Exception):
    """The tensors of a put are not where its writer says; the writer sends them again, in messages."""


class Brought(NamedTuple):
    """The tensors of a put: `arrays` by reference, `parts` and `frames` of the last message, or neither for a file."""

    arrays: Mapping[int, Array] | None = None
    parts: Sequence[Sequence[int]] = ()
    frames: Sequence[Any] | None = None


class Receiver(Protocol):
    """Interface of the shard that receives a put."""

    @property
    def number(self) -> int: ...
    @property
    def uploads(self) -> UploadBuffers: ...
    @property
    def tensors(self) -> Tensors: ...
    @property
    def folder(self) -> ShardFolder | None: ...


def take_in(served: Receiver, record: ModelRecord, brought: Brought) -> int | None:
    """Check and store the tensors of a put; return the size of their file in bytes, or None if there is none.

    Blocks on the disk.

    Raises
    ------
    Unseen
        If the tensors have not arrived: nothing was changed.
    CorruptRecord
        If they differ from those that the record names.
    InvalidInput
        If the record exceeds the journal's limit, which also holds for repositories in memory.
    """
    # Decodes the architecture, which the record caches: here in a thread, not on the event loop when the model is
    # published, and an invalid one is refused before anything is stored.
    summary_of(record)
    _check_size(record)
    if not record.own:
        return None
    model_id, attempt, named = record.model_id, record.attempt, named_in(record)
    digests = {number: digest for number, (_, digest) in named.items()}
    if brought.arrays is not None:
        # The writer in this process has computed the digests, and the arrays are read-only: no need to hash again.
        arrays = brought.arrays
        _check_named(record, {number: (TensorSpec.of(array), digests[number]) for number, array in arrays.items()})
    elif brought.frames is not None:
        buffer = served.uploads.of(served.number, model_id, attempt)
        if buffer is None:
            # Without earlier messages, this one must carry all bytes. Check that before allocating as much memory as
            # the record, which may be wrong, asks for.
            if sum(map(nbytes_of, brought.frames)) < record.own_bytes:
                raise Unseen(f"not all tensors of {model_id!r} have arrived")
            buffer = ReceiveBuffer({number: spec for number, (spec, _) in named.items()})
        _check_named(record, {number: (spec, digests.get(number, "")) for number, spec in buffer.specs.items()})
        buffer.write(brought.parts, brought.frames)
        if not buffer.is_complete:
            raise Unseen(f"not all tensors of {model_id!r} have arrived")
        arrays = buffer.tensors(digests)
    else:
        return _adopt(served, record)
    served.tensors.put(model_id, attempt, arrays, known=digests)
    return None if served.folder is None else served.folder.segment_path(model_id, attempt).stat().st_size


def _adopt(served: Receiver, record: ModelRecord) -> int:
    """Adopt the segment file that the writer has written, if its header agrees with the record.

    Only the header is checked: the writer has hashed what it wrote, and readers compare the bytes with the digests.
    """
    if served.folder is None or not isinstance(served.tensors, DurableTensors):
        raise Unseen("this repository has no root")
    try:
        segment = served.folder.open_segment(record.model_id, record.attempt)
    except CorruptRecord as error:
        raise Unseen(error.message) from error
    _check_named(record, {number: (entry.spec, entry.digest) for number, entry in segment.entries.items()})
    served.tensors.segments.take(record.model_id, record.attempt, segment, record.own)
    return segment.file_bytes


def _check_size(record: ModelRecord) -> None:
    nbytes = len(dump_json(Staged(record, None).to_json())) + _FILE_BYTES
    if nbytes > MAX_RECORD_BYTES:
        raise InvalidInput(
            f"the record of {record.model_id!r} has {nbytes} bytes as JSON, and {MAX_RECORD_BYTES} is the limit: "
            "attach less as `extra`, metrics or in layers' configurations; larger things belong in files",
            model_id=record.model_id,
            needed_bytes=nbytes,
            limit_bytes=MAX_RECORD_BYTES,
        )


_FILE_BYTES = 20
"""Most digits of the file's size in the record, which is not known yet."""


def named_in(record: ModelRecord) -> dict[int, tuple[TensorSpec, str]]:
    """Return specification and digest of each tensor that a record's model stored itself, by number."""
    return {number: (spec, record.owner_map.entries[number].digest) for number, spec in record.own.items()}


def _check_named(record: ModelRecord, brought: Mapping[int, tuple[TensorSpec, str]]) -> None:
    named = named_in(record)
    if brought != named:
        wrong = sorted(number for number in brought.keys() | named.keys() if brought.get(number) != named.get(number))
        raise CorruptRecord(
            f"the put of {record.model_id!r} brings other tensors than its record names, numbers {wrong[:5]}",
            model_id=record.model_id,
        )
