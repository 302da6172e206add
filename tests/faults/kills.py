"""A kill at any step of put, retire and put of a snapshot, in real processes, and what came of it.

The steps are not listed here: a run without kills writes them down.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
import psutil
from distributed import Client

import daskevo
from daskevo.deploy.local import local_cluster
from daskevo.errors import ClusterError, ModelRetired, UnknownModel
from daskevo.protocol.hashing import shard_of
from daskevo.repository import Snapshot
from daskevo.testing.steps import Strike, install
from daskevo.types import ModelId
from tests.cluster.helpers import chain, values
from tests.cluster.test_processes import put_plain

PARENT, CHILD = chain(8, 6, 3), chain(8, 6, 5)
SHARDS = 12
PATIENCE_S = 90.0
NOT_REACHED = "the step was not reached"
OPERATIONS = ("put", "retire", "snapshot")
VICTIMS = ("writer", "home", "owner")
"""Who may be killed: who asks, the provider of the child, the provider of the model that it inherits from."""


class Cell(NamedTuple):
    """One entry of the table: an operation, who is killed, and where."""

    operation: str
    victim: str
    step: str


class Outcome(NamedTuple):
    """What came of it: what the caller got, and what was wrong afterwards."""

    cell: Cell
    answer: str
    wrong: tuple[str, ...]


def state_of_child() -> Snapshot:
    """Return a snapshot that shares tensors with the parent, and has two of its own."""
    weights = values(CHILD, 5)
    slots = {f"optimizer/{number:04d}": weights[number] + 1 for number in (4, 5)}
    return Snapshot(CHILD, tuple(weights.values()), slots, {"step": 3})


def put_state(repository: Any, parent: str, child: str) -> str:
    """Put a snapshot beside the model that its training began with, as a task; run again, it finds its own."""
    return str(repository.put_snapshot(state_of_child(), name=child, base=parent, step=3))


def retire_both(repository: Any, parent: str, child: str) -> str:
    """Retire the ancestor first, as a task; run again, it finds what it had retired."""
    for name in (parent, child):
        with suppress(ModelRetired, UnknownModel):
            repository.retire(name)
    repository.stats()
    return "retired"


class Bench:
    """A cluster of three providers and a trainer, and models made for one cell after the other.

    Parameters
    ----------
    folder:
        For the root and the logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # A home that goes to another provider at that moment passes no step.
        self._settings = ExitStack()
        self._settings.enter_context(dask.config.set({"daskevo.rebalance-after": "1 day"}))
        self.cluster = local_cluster(trainers=1, providers=3, dashboard_address=None)
        self.client = Client(self.cluster)
        self._wait_for_workers()
        self.repository = daskevo.open(
            folder / "root", "kills", client=self.client, objective="max score", shards=SHARDS, timeout_s=20
        )
        self._count = 0

    def close(self) -> None:
        self.client.close()
        self.cluster.close()
        self._settings.close()

    # The cluster

    def _wait_for_workers(self) -> dict[str, str]:
        """Wait until all four are there; return their addresses by name."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            workers = self.client.scheduler_info(n_workers=-1)["workers"]
            found = {str(worker["name"]): address for address, worker in workers.items()}
            if len(found) == 4:
                return found
            time.sleep(0.05)
        raise TimeoutError(f"only {sorted(found)} came back")

    def _on(self, name: str, function: Any, *args: Any) -> Any:
        address = self._wait_for_workers()[name]
        return self.client.run(function, *args, workers=[address])[address]

    def _places(self) -> dict[int, str]:
        """Return which provider serves each shard, once all are served."""

        def shards(dask_worker: Any) -> list[int]:
            return [
                shard
                for name, plugin in dask_worker.plugins.items()
                if name.startswith("daskevo-provider") and plugin.host is not None
                for shard in plugin.host.shards
            ]

        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            self._wait_for_workers()
            with suppress(OSError, ValueError):
                places = {
                    shard: name
                    for name in ("provider-0", "provider-1", "provider-2")
                    for shard in self._on(name, shards)
                }
                if len(places) == SHARDS and len(set(places.values())) > 1:
                    return places
            time.sleep(0.05)
        raise TimeoutError(f"served are {places}")

    # One cell

    def _names(self) -> tuple[str, str, dict[str, str]]:
        """Return names of a parent and a child with homes on different providers, and who is who."""
        places = self._places()
        self._count += 1
        names = (f"m{self._count}-{index}" for index in range(1_000))
        parent = next(names)
        owner = places[shard_of(ModelId(parent), SHARDS)]
        child = next(name for name in names if places[shard_of(ModelId(name), SHARDS)] != owner)
        home = places[shard_of(ModelId(child), SHARDS)]
        return parent, child, {"writer": "trainer-0", "home": home, "owner": owner}

    def _submit(self, function: Any, *args: Any) -> Any:
        return self.client.submit(function, self.repository, *args, resources={"evaluation": 1}, pure=False, retries=2)

    def steps(self) -> list[Cell]:
        """Run all operations without a kill, and return all steps that were passed."""
        cells: list[Cell] = []
        for operation in OPERATIONS:
            parent, child, roles = self._names()
            work = self._ready_for(operation, parent, child)
            logs = {victim: self.folder / f"{operation}-{victim}" for victim in VICTIMS}
            for victim, log in logs.items():
                self._on(roles[victim], install, str(log))
            self._submit(*work).result(PATIENCE_S)
            self.repository.stats()
            for victim, log in logs.items():
                self._on(roles[victim], install)
                found = dict.fromkeys(log.read_text().splitlines()) if log.exists() else {}
                cells += [Cell(operation, victim, step) for step in found if not _is_of_others(step)]
            self._retire(parent, child)
        return cells

    def _ready_for(self, operation: str, parent: str, child: str) -> tuple[Any, ...]:
        """Put what an operation begins with; return its work."""
        self._submit(put_plain, PARENT, parent).result(PATIENCE_S)
        put = (put_plain, CHILD, child)
        if operation == "retire":
            self._submit(*put).result(PATIENCE_S)
        return {"put": put, "snapshot": (put_state, parent, child), "retire": (retire_both, parent, child)}[operation]

    def try_cell(self, cell: Cell) -> Outcome:
        """Carry out an operation while one process is killed at a step of it, then look at everything."""
        parent, child, roles = self._names()
        work = self._ready_for(cell.operation, parent, child)
        victim = roles[cell.victim]
        pid = self._on(victim, os.getpid)
        self._on(victim, install, None, Strike(cell.step))
        try:
            answer = str(self._submit(*work).result(PATIENCE_S))
            answer = {child: "stored"}.get(answer, answer)
        except Exception as error:  # noqa: BLE001 - whatever the caller gets is the outcome
            answer = type(error).__name__
        wrong = [] if self._is_gone(pid) else [NOT_REACHED]
        if wrong:
            self._on(victim, install)
        wrong += self._look(cell, answer, child)
        self._retire(parent, child)
        wrong += self._look_at_the_end()
        return Outcome(cell, answer, tuple(wrong))

    def _retire(self, *names: str) -> None:
        for name in names:
            with suppress(ModelRetired, UnknownModel):
                self._patiently(self.repository.retire, name)

    def _look(self, cell: Cell, answer: str, child: str) -> Iterator[str]:
        if cell.operation != "retire":
            state = self._patiently(self.repository.status, child).state
            if answer == "stored" or state == "published":
                if state != "published":
                    yield f"answered as stored, and {state}"
                    return
                # Both were made of the same values: what was inherited, and what was not, are these.
                if not _are_put(self._patiently(self.repository.read, child)):
                    yield "other weights than were put"
                if cell.operation == "snapshot" and not _is_state(
                    self._patiently(self.repository.read_snapshot, child)
                ):
                    yield "another state than was put"
        verification = self._patiently(self.repository.verify)
        if not verification.clean:
            yield f"not clean: {verification.differences}"

    def _look_at_the_end(self) -> Iterator[str]:
        self._patiently(self.repository.stats)
        verification = self._patiently(self.repository.verify)
        if not verification.clean or verification.models or verification.payload_bytes:
            yield f"left at the end: {verification.to_json()}"

    @staticmethod
    def _is_gone(pid: int) -> bool:
        """Tell whether a process has ended, though its nanny may not have noticed yet."""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.02)
                    continue
            return True
        return False

    @staticmethod
    def _patiently(function: Any, *args: Any) -> Any:
        """Ask again while shards are on their way to another provider."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return function(*args)
            except ClusterError:
                if time.monotonic() > deadline:
                    raise


def _are_put(found: Mapping[Any, Any]) -> bool:
    return all(map(np.array_equal, found.values(), values(CHILD, 5).values()))


def _is_state(found: Snapshot) -> bool:
    wanted = state_of_child()
    return found.extra == wanted.extra and all(
        np.array_equal(found.attached[name], array) for name, array in wanted.attached.items()
    )


def _is_of_others(step: str) -> bool:
    """Tell whether a step belongs to what goes on all the time, or is passed once in a while."""
    return any(word in step for word in ("audit", "pulse", "stats", "retirements", "sight", "coordinator table"))


# The scheduler: with it the whole job dies, and another one opens the root.

JOB = """
import signal, sys
import daskevo
from daskevo.testing.steps import Strike, install
from tests.faults.kills import CHILD, PARENT, SHARDS, retire_both
from tests.cluster.test_processes import put_plain
from distributed import Client

if __name__ == "__main__":
    root, operation, step, log = sys.argv[1:]
    with daskevo.local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster, Client(cluster) as client:
        repository = daskevo.open(root, "kills", client=client, objective="max score", shards=SHARDS)
        train = {"resources": {"evaluation": 1}, "pure": False}
        client.submit(put_plain, repository, PARENT, "parent", **train).result()
        if operation == "retire":
            client.submit(put_plain, repository, CHILD, "child", **train).result()
        install(log or None, Strike(step) if step else None)
        works = {"put": (put_plain, repository, CHILD, "child"), "retire": (retire_both, repository, "parent", "child")}
        print(client.submit(*works[operation], **train).result(), flush=True)
"""


def run_job(root: Path, operation: str, step: str = "", log: str = "") -> tuple[str, int]:
    """Run a job of its own that puts or retires; return the last line that it printed, and how its process ended."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    script = root.with_suffix(".py")
    script.write_text(JOB)
    job = subprocess.run(
        [sys.executable, str(script), str(root), operation, step, log],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    return (job.stdout.split() or [""])[-1], job.returncode


def scheduler_steps(folder: Path) -> list[Cell]:
    """Run both operations without a kill, and return all steps that the scheduler passed."""
    cells: list[Cell] = []
    for operation in ("put", "retire"):
        log = folder / f"{operation}.log"
        run_job(folder / operation, operation, log=str(log))
        steps = dict.fromkeys(log.read_text().splitlines())
        cells += [Cell(operation, "scheduler", step) for step in steps if step.startswith("coordinator: ")]
    return [cell for cell in cells if not _is_of_others(cell.step)]


def try_scheduler(cell: Cell, root: Path) -> Outcome:
    """Kill a scheduler, and with it its job, at a step; then open the root in another job, and look at everything."""
    answer, code = run_job(root, cell.operation, cell.step)
    wrong = [] if code == -signal.SIGKILL else [NOT_REACHED]
    with local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster, Client(cluster) as client:
        repository = daskevo.open(root, "kills", client=client, timeout_s=20)
        state = repository.status("child").state
        if answer == "child" and state != "published":
            wrong.append(f"answered as stored, and {state}")
        if state == "published" and not _are_put(repository.read("child")):
            wrong.append("other weights than were put")
        verification = repository.verify()
        if not verification.clean:
            wrong.append(f"not clean: {verification.differences}")
        retire_both(repository, "parent", "child")
        verification = repository.verify()
        if not verification.clean or verification.models or verification.payload_bytes:
            wrong.append(f"left at the end: {verification.to_json()}")
    return Outcome(cell, {"child": "stored"}.get(answer, answer or "died with it"), tuple(wrong))
