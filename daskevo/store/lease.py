"""The root's lease: the job that has the repository open (protocol: Root lease).

The highest ``generation.<g>`` file names the holder; ``cluster.json`` repeats it for users, and tells whether the lease
was released. The lease avoids conflicts between well-behaved jobs; safety comes from the shards' epochs.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from daskevo.errors import CorruptRecord, RepositoryTaken, SchedulerUnaskable
from daskevo.store.files import (
    corrupt,
    create_file,
    dump_json,
    read_json,
    remove,
    replace_file,
    usable,
)
from daskevo.store.root import Root

FORMAT = 1
_REMEDY = "If no job has the repository open, remove this file and try again"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Holder:
    """The holder of a lease.

    Attributes
    ----------
    scheduler_id, address:
        Id and address of the Dask scheduler.
    job:
        A name for users: the id of the batch job, or the user's name.
    host, started:
        Host of the scheduler, and time of its start (ISO 8601, UTC).
    """

    scheduler_id: str
    address: str
    job: str
    host: str = field(default_factory=socket.gethostname)
    started: str = field(default_factory=_now)

    def __str__(self) -> str:
        return f"job {self.job} (scheduler {self.scheduler_id} at {self.address} on {self.host}, since {self.started})"


class CannotAsk(Exception):
    """This process can't find out whether a holder is alive; the message tells why."""


Ask = Callable[[Holder], str | None]
"""Ask the address of a holder for its scheduler id; None if there is no answer in time; may raise `CannotAsk`.

For its own scheduler, a coordinator returns None unless it serves this repository already: after a restart of the
coordinator, nothing of the old generation is alive.
"""


@dataclass(frozen=True)
class Lease:
    """A generation of the repository: one opening by one coordinator.

    Attributes
    ----------
    root:
        The repository.
    generation:
        Its number, 1 for the first opening.
    holder:
        The holder of the lease.
    joined:
        Whether the same scheduler had the repository open already, in this generation.
    """

    root: Root
    generation: int
    holder: Holder
    joined: bool

    def check(self) -> None:
        """Check that no later generation was opened.

        Raises
        ------
        RepositoryTaken
            If there is one; the message names the job that has the repository open now, or had it last.
        """
        with usable(self.root.path, "read the lease"):
            numbers = _generations(self.root.path)
            if numbers and numbers[0] > self.generation:
                former = _read_generation(self.root, numbers[0])
                raise _taken(self.root, numbers[0], former, ended=_released(self.root) >= numbers[0])

    def release(self) -> None:
        """Release the lease, so that the next job need not wait for a scheduler that does not answer."""
        with usable(self.root.path, "give back the lease", 0):
            # Only if it is still the highest one: a job that has taken the repository over keeps its entry.
            if _generations(self.root.path)[:1] == [self.generation]:
                _write_cluster(self.root, self.generation, self.holder, released=_now())


def current_lease(root: Root) -> Lease | None:
    """Return the present lease, None if there is none or it was released.

    Raises
    ------
    CorruptRecord
        If its file is damaged.
    RootUnusable
        If the root can't be read.
    """
    generation, holder = _standing(root)
    return None if holder is None else Lease(root, generation, holder, joined=False)


def take_lease(root: Root, mine: Holder, ask: Ask) -> Lease:
    """Open the repository in a new generation, or join the generation of the same scheduler.

    Parameters
    ----------
    root:
        The repository.
    mine:
        The holder that takes the lease.
    ask:
        Asks a holder's address; may block. It is called only for a lease that was not released.

    Raises
    ------
    RepositoryTaken
        If another job has it open (its scheduler answers), or took the lease at the same time.
    SchedulerUnaskable
        If this process can't find out whether the holder is alive.
    CorruptRecord, RootUnusable
        As in `current_lease`.
    """
    return root.with_reserve(lambda: _take(root, mine, ask))


def _take(root: Root, mine: Holder, ask: Ask) -> Lease:
    while True:
        highest, holder = _standing(root)
        answer = None if holder is None else _ask(root, highest, holder, ask)
        if holder is not None and answer == holder.scheduler_id:
            if answer == mine.scheduler_id:
                return Lease(root, highest, holder, joined=True)
            raise _taken(root, highest, holder)
        with usable(root.path, "take the lease", 0):
            # Read before listing: a generation that another taker has written there meanwhile is in the list then.
            repeated = _cluster_generation(root)
            numbers = _generations(root.path)
            if max(numbers, default=0) != highest:
                continue  # another job has taken the lease meanwhile: ask that one
            generation = max(highest, repeated) + 1
            data = dump_json({"format": FORMAT, "generation": generation, "holder": asdict(mine)})
            sync = root.durability == "synced"
            if not create_file(_generation_path(root, generation), data, sync=sync):
                continue  # another job has created it: exactly one gets each number
            taken = Lease(root, generation, mine, joined=False)
            # If this process was suspended between listing and creating, others may have taken and removed this number
            # meanwhile, and the highest one is above it.
            try:
                taken.check()
                _write_cluster(root, generation, mine)
                taken.check()
            except (RepositoryTaken, OSError):
                remove(_generation_path(root, generation))
                raise
            for number in numbers:
                remove(_generation_path(root, number))
            return taken


def _standing(root: Root) -> tuple[int, Holder | None]:
    """Return the highest generation (0: none) and its holder; no holder if the lease was given back."""
    with usable(root.path, "read the lease"):
        while True:
            highest = max(_generations(root.path), default=0)
            if highest == 0 or _released(root) >= highest:
                return highest, None
            holder = _read_generation(root, highest)
            # If the file is gone, there is a higher one: look again.
            if holder is not None:
                return highest, holder


def _ask(root: Root, generation: int, holder: Holder, ask: Ask) -> str | None:
    try:
        return ask(holder)
    except CannotAsk as error:
        raise SchedulerUnaskable(
            f"{root.path} was opened last in {holder}, and whether that job still has it open can't be found out from "
            f"here: {error}. Open it where that scheduler can be reached; if the job has ended, remove "
            f"{_generation_path(root, generation)} and try again",
            **_facts(root, generation, holder),
            reason=str(error),
        ) from error


def _taken(root: Root, generation: int, holder: Holder | None, *, ended: bool = False) -> RepositoryTaken:
    whose = holder or "another job"
    found = f"is open in {whose}: end that job, or connect to its scheduler"
    if ended:
        found = f"was taken from this cluster by {whose}, which has given it back since: open it again"
    return RepositoryTaken(
        f"{root.path} {found}",
        **_facts(root, generation, holder),
    )


def _facts(root: Root, generation: int, holder: Holder | None) -> dict[str, Any]:
    return {
        "root": str(root.path),
        "generation": generation,
        "job": holder and holder.job,
        "address": holder and holder.address,
        "host": holder and holder.host,
        "scheduler_id": holder and holder.scheduler_id,
    }


def _generation_path(root: Root, generation: int) -> Path:
    return root.path / f"generation.{generation}"


def _generations(path: Path) -> list[int]:
    found = (re.fullmatch(r"generation\.([1-9]\d{0,17})", name, re.ASCII) for name in os.listdir(path))
    return sorted((int(match[1]) for match in found if match), reverse=True)


def _read_generation(root: Root, generation: int) -> Holder | None:
    path = _generation_path(root, generation)
    try:
        value = read_json(path, "the lease", FORMAT, remedy=_REMEDY)
    except FileNotFoundError:
        return None
    match value:
        case {"format": 1, "generation": found, "holder": dict(holder)} if found == generation:
            return _holder(holder, path)
    raise corrupt(path, f"no lease of format {FORMAT}: {str(value)[:80]}", 0, _REMEDY)


def _holder(value: dict[str, Any], path: Path) -> Holder:
    names = Holder.__dataclass_fields__.keys()
    if not names <= value.keys() or not all(isinstance(value[name], str) for name in names):
        raise corrupt(path, f"no holder of a lease: {str(value)[:80]}", 0, _REMEDY)
    return Holder(**{name: value[name] for name in names})


def _cluster(root: Root) -> dict[str, Any]:
    # The generation files decide, not cluster.json, so a damaged one counts as empty and the next opener replaces it.
    path = root.path / "cluster.json"
    with contextlib.suppress(FileNotFoundError, CorruptRecord):
        value = read_json(path, "the lease", FORMAT)
        if isinstance(value, dict) and value.get("format") == FORMAT and type(value.get("generation")) is int:
            return value
    return {}


def _cluster_generation(root: Root) -> int:
    return int(_cluster(root).get("generation", 0))


def _released(root: Root) -> int:
    """Return the generation that was released, 0 if none."""
    cluster = _cluster(root)
    return int(cluster["generation"]) if cluster.get("released") else 0


def _write_cluster(root: Root, generation: int, holder: Holder, released: str | None = None) -> None:
    value = {"format": FORMAT, "generation": generation, **asdict(holder), "released": released}
    replace_file(root.path / "cluster.json", dump_json(value), sync=root.durability == "synced")
