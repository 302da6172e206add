"""The cluster's trainers as a run sees them: which are present, have free slots, or are being restarted.

Trainers are identified by name; a nanny's restart keeps the name and changes the address. Dask resolves a name to an
address once, when a task is submitted, so a task pinned to a trainer that dies waits for ever: code that submits must
watch the addresses.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.client.query_futures import TASK_PREFIX
from daskevo.deploy.configured import claims
from daskevo.deploy.roles import ENDS, EVALUATION, PROVIDER, start_line
from daskevo.deploy.worker_list import workers_of
from daskevo_workflows.execution.deadline import may_take
from daskevo_workflows.execution.scheduler_lost import NO_ANSWER, scheduler_gone

LEAVING = ("closing_gracefully", "closing", "closed")
"""Statuses of workers that leave in good order, as in scaling down."""
RESTART_TIMEOUT_S = 120.0
SILENT_S = 150.0
"""A trainer without a heartbeat for this long hangs in code that holds Python's global interpreter lock, or is cut off.
It must stay below 300 s (``distributed.scheduler.worker-ttl``): then Dask forgets the worker and its nanny."""
BLIND_S = 5.0
"""Most that one look at the scheduler adds to a silence: this process, or the scheduler, may itself have stalled."""

DELIVERED = f"{TASK_PREFIX}problem-"
"""Prefix of the keys of problems on their way to trainers."""


@dataclass(frozen=True, slots=True)
class Trainer:
    """One trainer as the scheduler last described it.

    Parameters
    ----------
    name:
        As Dask has it (text or number).
    address:
        Of its process.
    slots:
        Evaluations that it may run at the same time.
    nanny:
        Whether it has a nanny, and so can be restarted.
    provider:
        Whether it also holds shards; then its process is not ended unless it must be.
    running, paused:
        Whether it takes tasks; paused means Dask has stopped it for its memory use.
    heard:
        Time of its last heartbeat, by the scheduler's clock.
    memory_bytes:
        Its memory limit; 0 if it has none.
    ends:
        When it leaves, in seconds since the epoch; None if it doesn't say.
    threads:
        Tasks of any client that it can run at the same time.
    """

    name: Any
    address: str
    slots: int
    nanny: bool
    running: bool = True
    paused: bool = False
    provider: bool = False
    heard: float = 0.0
    memory_bytes: int = 0
    ends: float | None = None
    threads: int = 1


class Trainers:
    """Slots of the cluster's trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    restarted:
        Called from another thread when a restart has ended, with the name, and an error or None.
    expected_s:
        Returns the seconds that nearly all evaluations stay below; None if not known.
    clock:
        Seconds since the epoch.
    """

    def __init__(
        self,
        client: Any,
        restarted: Callable[[str, Exception | None], None],
        expected_s: Callable[[], float | None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._restarted = restarted
        self._expected_s = expected_s
        self._clock = clock
        self.claims = claims()
        """Resources of a worker that one evaluation uses; read once, so that it holds for the whole run."""
        self._whole_s: dict[str, float] = {}
        """Remaining lifetime in seconds of each trainer when it was first seen, by address."""
        self.present: dict[str, Trainer] = {}
        self.used: dict[str, set[str]] = {}
        self._had: dict[str, set[str]] = {}
        """Keys that this run gave to a trainer's current process, by name; it may still hold their results."""
        self.evaluations: dict[str, int] = {}
        self.restarting: set[str] = set()
        self.silent_s: dict[str, float] = {}
        """Seconds without a heartbeat, by name."""
        self.stuck: dict[str, Trainer] = {}
        """Trainers by the key of a cancelled evaluation that still runs there and keeps its slot."""
        self.left: set[str] = set()
        """Addresses of workers that were seen leaving in good order."""
        self.refused: dict[str, str] = {}
        """Why a worker is not among the trainers although it offers to be one, by address."""
        self._looked = time.monotonic()

    @property
    def scheduler(self) -> str:
        """The address of the scheduler."""
        return str(self._client.scheduler.address)

    def refresh(self) -> Mapping[str, Trainer]:
        """Fetch the list of trainers from the scheduler.

        Raises
        ------
        SchedulerUnreachable
        """
        try:
            workers = workers_of(self._client)
        except NO_ANSWER as error:
            raise scheduler_gone(error) from error
        found: dict[str, Trainer] = {}
        for address, worker in workers.items():
            resources = worker.get("resources") or {}
            slots = self._slots(resources)
            status = worker.get("status", "running")
            if status in LEAVING:
                self.left.add(address)
            if slots and status not in ("closing", "closed", "failed") and address not in self.refused:
                nanny = worker.get("nanny") is not None
                running, paused = status == "running", status == "paused"
                provider = PROVIDER in resources
                heard, memory = worker.get("last_seen", 0.0), int(worker.get("memory_limit") or 0)
                ends = _moment((worker.get("metrics") or {}).get(ENDS))
                found[str(worker["name"])] = Trainer(
                    worker["name"],
                    address,
                    slots,
                    nanny,
                    running,
                    paused,
                    provider,
                    heard,
                    memory,
                    ends,
                    int(worker.get("nthreads") or 1),
                )
        self._compare(found)
        self.present = found
        # A stuck evaluation ends at the latest with its process.
        for key, trainer in list(self.stuck.items()):
            if trainer.address not in {there.address for there in found.values()}:
                self.unstick(key)
        return found

    def _slots(self, resources: Mapping[str, float]) -> int:
        """Return how many evaluations a worker with these resources may run at the same time."""
        return min(int(resources.get(name, 0) // amount) for name, amount in self.claims.items())

    @property
    def claimed(self) -> str:
        """The resources that an evaluation claims, as text for messages."""
        return " and ".join(f"{name!r}" for name in self.claims)

    @property
    def how_to_start_one(self) -> str:
        """The command that starts a trainer with all the resources that an evaluation claims."""
        more = {name: amount for name, amount in self.claims.items() if name != EVALUATION}
        return start_line(self.scheduler, EVALUATION, more)

    def _compare(self, found: Mapping[str, Trainer]) -> None:
        """Compare with the previous list: reset counts of new processes, add up silences."""
        now = time.monotonic()
        elapsed, self._looked = min(now - self._looked, BLIND_S), now
        silent_s = {}
        for name, trainer in found.items():
            before = self.present.get(name)
            if before is None or before.address != trainer.address:
                # A new process has leaked nothing yet, and holds no results but of what it has just been sent.
                self.evaluations[name] = 0
                self._had[name] = set(self.used.get(name, ()))
            if trainer.ends is not None:
                self._whole_s.setdefault(trainer.address, trainer.ends - self._clock())
            # Only a heartbeat's time that stands still counts, not its age: the scheduler's clock may differ from ours.
            quiet = before is not None and (before.address, before.heard) == (trainer.address, trainer.heard)
            silent_s[name] = self.silent_s.get(name, 0.0) + elapsed if quiet else 0.0
        self.silent_s = silent_s

    def refuse(self, trainer: Trainer, why: str) -> bool:
        """Give a trainer's process no more evaluations; return False if that was so before."""
        is_new = trainer.address not in self.refused
        self.refused[trainer.address] = why
        there = self.present.get(str(trainer.name))
        if there is not None and there.address == trainer.address:
            del self.present[str(trainer.name)]
        return is_new

    def is_silent(self, name: str) -> bool:
        """Tell whether a trainer has sent no heartbeat for too long."""
        return self.silent_s.get(name, 0.0) > SILENT_S

    def free(self) -> list[Trainer]:
        """Return trainers with free slots, once per slot, least busy first, then by name."""
        slots: list[tuple[int, str]] = []
        seconds = self._expected_s() if any(trainer.ends is not None for trainer in self.present.values()) else None
        for name, trainer in self.present.items():
            usable = trainer.running and name not in self.restarting and not self.is_silent(name)
            if usable and self._has_time(trainer, seconds):
                used = len(self.used.get(name, ()))
                slots += [(taken, name) for taken in range(used, trainer.slots)]
        # Sorted by load, so that a batch spreads over all trainers before it fills any of them.
        return [self.present[name] for _, name in sorted(slots)]

    def _has_time(self, trainer: Trainer, seconds: float | None) -> bool:
        """Tell whether a trainer stays long enough for another evaluation."""
        if trainer.ends is None:
            return True
        left_s = trainer.ends - self._clock()
        return may_take(left_s, self._whole_s.get(trainer.address, left_s), seconds)

    @property
    def slots(self) -> int:
        """Evaluations that can run at the same time."""
        return sum(trainer.slots for trainer in self.present.values()) - len(self.stuck)

    def take(self, name: str, key: str) -> None:
        """Note that a trainer got an evaluation."""
        self.used.setdefault(name, set()).add(key)
        self._had.setdefault(name, set()).add(key)

    def give_back(self, name: str, key: str, *, evaluated: bool) -> None:
        """Note that a trainer has finished an evaluation."""
        self.used.get(name, set()).discard(key)
        if evaluated:
            self.evaluations[name] = self.evaluations.get(name, 0) + 1

    def stick(self, name: str, key: str) -> None:
        """Keep a slot taken by a cancelled evaluation that goes on running."""
        self.stuck[key] = self.present[name]

    def unstick(self, key: str) -> bool:
        """Free a stuck slot, its evaluation or process having ended; return False if it was not stuck."""
        trainer = self.stuck.pop(key, None)
        if trainer is None:
            return False
        self.give_back(str(trainer.name), key, evaluated=False)
        return True

    def others_tasks(self, name: str, ours: Collection[str]) -> int:
        """Count the tasks of other clients that a trainer has."""
        address = self.present[name].address
        try:
            processing = self._client.processing(workers=[address])
        except NO_ANSWER as error:
            raise scheduler_gone(error) from error
        return len(_of_others(processing.get(address, ()), ours))

    def others(self, name: str) -> tuple[int, int]:
        """Count what other clients would lose with a trainer's process: tasks, and results held nowhere else.

        Raises
        ------
        SchedulerUnreachable
        """
        address, ours = self.present[name].address, self._had.get(name, set())
        try:
            held = self._client.has_what(workers=[address]).get(address, ())
            keys = _of_others(held, ours)
            holders = self._client.sync(self._client.scheduler.who_has, keys=keys) if keys else {}
        except NO_ANSWER as error:
            raise scheduler_gone(error) from error
        # Results that another worker holds as well survive the process.
        return self.others_tasks(name, ours), sum(not set(holders.get(key, ())) - {address} for key in keys)

    def restart(self, name: str) -> bool:
        """Restart a trainer's process in a thread of its own; return False if it has no nanny."""
        trainer = self.present.get(name)
        if trainer is None or not trainer.nanny:
            return False
        if name not in self.restarting:
            self.restarting.add(name)
            # A restart takes many seconds, during which the run's loop must go on.
            threading.Thread(target=self._restart, args=(trainer,), daemon=True, name=f"restart-{name}").start()
        return True

    def _restart(self, trainer: Trainer) -> None:
        failure: Exception | None = None
        try:
            # Not `client.restart_workers`: a process that doesn't end within 4 s (TensorFlow's, or one that hangs) is
            # killed by its nanny, which then starts it twice; sometimes the scheduler takes both for failed and
            # dismisses the nanny, and the trainer is gone for good.
            self._client.run(kill_process, workers=[trainer.address], nanny=True)
            deadline = time.monotonic() + RESTART_TIMEOUT_S
            while not self._is_back(trainer):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not back within {RESTART_TIMEOUT_S:g} s")  # noqa: TRY301
                time.sleep(0.2)
        except Exception as error:  # noqa: BLE001 - handed on to the run, which looks who is there
            failure = error
        self._restarted(str(trainer.name), failure)

    def _is_back(self, trainer: Trainer) -> bool:
        return any(
            worker["name"] == trainer.name and address != trainer.address and worker["status"] == "running"
            for address, worker in workers_of(self._client).items()
        )

    def has_restarted(self, name: str) -> None:
        """Count a trainer in again after its restart."""
        self.restarting.discard(name)
        self.evaluations[name] = 0
        self.refresh()


def _of_others(keys: Iterable[Any], ours: Collection[str]) -> list[Any]:
    """Return the keys that other clients would miss. Answers of queries and problems on their way are not among them,
    whoever asked for them: Dask makes them again where they are lost."""
    return [key for key in keys if key not in ours and not str(key).startswith(TASK_PREFIX)]


def _moment(value: Any) -> float | None:
    """Return the time at which a worker ends, if it is a valid one: anything may be in a worker's metrics."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else None


def kill_process(dask_worker: Any) -> None:
    """Kill the worker process of a nanny (`dask_worker` here is the nanny); the nanny starts another."""
    pid = dask_worker.process.pid if dask_worker.process is not None else None
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
