"""Holders of attempts: one run of a task, or one connection of a client. A holder that has ended never comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from daskevo.protocol.codec import COUNT, TEXT, Wire, decode_kind, wire_kinds


@dataclass(frozen=True)
class TaskHolder(Wire):
    """One run of a task; if the task runs again under the same key, that is another holder.

    `run_id` is read once when the task starts: the thread of a cancelled task would later read the id of the next run.
    """

    key: Annotated[str, TEXT]
    run_id: Annotated[int, COUNT]
    worker: Annotated[str, TEXT]
    """Address of the worker that runs it."""


@dataclass(frozen=True)
class ClientHolder(Wire):
    """One connection of a client; if Dask reconnects it under the same id, that is another holder."""

    client_id: Annotated[str, TEXT]
    connection: Annotated[int, COUNT] = 0
    """Number of the connection, set by the coordinator; the client doesn't know it."""


Holder = TaskHolder | ClientHolder

_KINDS = wire_kinds(TaskHolder, ClientHolder)


def holder_from_wire(value: object) -> Holder:
    """Decode a holder; raise CorruptRecord for other values."""
    holder: Holder = decode_kind(value, _KINDS, "holder")
    return holder
