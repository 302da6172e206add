"""Who may have attempts: one run of a task, or one connection of a client. A holder that ended never comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from daskevo.protocol.codec import COUNT, TEXT, Wire, decode_kind, wire_kinds


@dataclass(frozen=True)
class TaskHolder(Wire):
    """One run of a task: the same key run again is another holder.

    `run_id` is read once when the task starts: a cancelled thread would see its successor's later.
    """

    key: Annotated[str, TEXT]
    run_id: Annotated[int, COUNT]
    worker: Annotated[str, TEXT]
    """Address of the worker that runs it."""


@dataclass(frozen=True)
class ClientHolder(Wire):
    """One connection of a client: Dask connects a client again under the same id, and that is another holder."""

    client_id: Annotated[str, TEXT]
    connection: Annotated[int, COUNT] = 0
    """Counted by the coordinator; a client doesn't know it."""


Holder = TaskHolder | ClientHolder

_KINDS = wire_kinds(TaskHolder, ClientHolder)


def holder_from_wire(value: object) -> Holder:
    """Read a holder; raises CorruptRecord on anything else."""
    holder: Holder = decode_kind(value, _KINDS, "holder")
    return holder
