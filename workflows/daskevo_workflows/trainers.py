"""The trainers of a cluster as a run sees them: who is there, who is free, who is being restarted.

Trainers are known by name; a nanny's restart keeps the name and changes the address. Dask turns a name into the
address of that moment when a task is submitted, so a task pinned to a trainer that dies waits for ever: who submits
must watch the addresses.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.errors import SchedulerUnreachable

EVALUATION = "evaluation"
"""The Dask resource that makes a worker a trainer; an evaluation takes 1 of it."""
RESTART_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Trainer:
    """One trainer at this moment.

    Parameters
    ----------
    name:
        As Dask knows it (text or number).
    address:
        Of its process.
    slots:
        Evaluations that it may run at once.
    nanny:
        Whether it can be restarted.
    provider:
        Whether it holds shards, too: then its process is not ended without need.
    running, paused:
        Whether it takes tasks; paused = not, for its memory.
    """

    name: Any
    address: str
    slots: int
    nanny: bool
    running: bool = True
    paused: bool = False
    provider: bool = False


class Trainers:
    """Slots of the cluster's trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    restarted:
        Called from another thread when a restart has ended, with the name, and an error or None.
    """

    def __init__(self, client: Any, restarted: Callable[[str, Exception | None], None]) -> None:
        self._client = client
        self._restarted = restarted
        self.present: dict[str, Trainer] = {}
        self.used: dict[str, set[str]] = {}
        self.evaluations: dict[str, int] = {}
        self.restarting: set[str] = set()

    def refresh(self) -> Mapping[str, Trainer]:
        """Ask the scheduler who is there.

        Raises
        ------
        SchedulerUnreachable
        """
        try:
            # Not `client.scheduler_info`: its answer may be overwritten, before it is read, by the client's own regular
            # look at the scheduler, which asks for no workers; all trainers would seem to be gone.
            workers = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        except (OSError, TimeoutError, RuntimeError, ValueError, KeyError, AttributeError) as error:
            raise SchedulerUnreachable(
                f"the scheduler does not answer any more ({error or type(error).__name__}); what was "
                "finished is in the "
                "run's record: start the cluster again and run the same command to go on"
            ) from error
        found: dict[str, Trainer] = {}
        for address, worker in workers.items():
            resources = worker.get("resources") or {}
            slots = int(resources.get(EVALUATION, 0))
            status = worker.get("status", "running")
            if slots and status not in ("closing", "closed", "failed"):
                nanny = worker.get("nanny") is not None
                running, paused = status == "running", status == "paused"
                provider = "provider" in resources
                found[str(worker["name"])] = Trainer(worker["name"], address, slots, nanny, running, paused, provider)
        for name, trainer in found.items():
            before = self.present.get(name)
            if before is None or before.address != trainer.address:
                self.evaluations[name] = 0
        self.present = found
        return found

    def free(self) -> list[Trainer]:
        """Return trainers with a free slot, once per slot, the idlest first, then in the order of their names."""
        slots: list[tuple[int, str]] = []
        for name, trainer in self.present.items():
            if trainer.running and name not in self.restarting:
                used = len(self.used.get(name, ()))
                slots += [(taken, name) for taken in range(used, trainer.slots)]
        return [self.present[name] for _, name in sorted(slots)]

    @property
    def slots(self) -> int:
        """Evaluations that may run at once."""
        return sum(trainer.slots for trainer in self.present.values())

    def take(self, name: str, key: str) -> None:
        """Note that an evaluation was sent to a trainer."""
        self.used.setdefault(name, set()).add(key)

    def give_back(self, name: str, key: str, *, evaluated: bool) -> None:
        """Note that a trainer is done with an evaluation."""
        self.used.get(name, set()).discard(key)
        if evaluated:
            self.evaluations[name] = self.evaluations.get(name, 0) + 1

    def restart(self, name: str) -> bool:
        """Restart a trainer's process beside everything else; False if it has no nanny to do so."""
        trainer = self.present.get(name)
        if trainer is None or not trainer.nanny:
            return False
        if name not in self.restarting:
            self.restarting.add(name)
            threading.Thread(target=self._restart, args=(trainer,), daemon=True, name=f"restart-{name}").start()
        return True

    def _restart(self, trainer: Trainer) -> None:
        failure: Exception | None = None
        try:
            # Not `client.restart_workers`: a process that doesn't end within 4 s (TensorFlow's, or one that hangs) is
            # killed
            # by its nanny, which then starts it twice over; now and then the scheduler takes both for failed and
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
        workers = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
        return any(
            worker["name"] == trainer.name and address != trainer.address and worker["status"] == "running"
            for address, worker in workers.items()
        )

    def has_restarted(self, name: str) -> None:
        """Take a trainer back in after its restart."""
        self.restarting.discard(name)
        self.evaluations[name] = 0
        self.refresh()


def kill_process(dask_worker: Any) -> None:
    """Kill the process that a nanny (`dask_worker` here) looks after; the nanny starts another."""
    pid = dask_worker.process.pid if dask_worker.process is not None else None
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
