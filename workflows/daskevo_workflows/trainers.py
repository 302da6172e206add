"""The trainers of a cluster as an executor sees them: who is there, who is free, who is being restarted.

Trainers are known by name; a nanny's restart keeps the name and changes the address. Dask turns a name into the
address of that moment when a task is submitted, so a task pinned to a trainer that dies waits for ever: the executor
watches the addresses and submits again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from daskevo.errors import SchedulerUnreachable

EVALUATION = "evaluation"
"""The Dask resource that makes a worker a trainer; an evaluation takes 1 of it."""
RESTART_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Trainer:
    """One trainer at this moment: its name as Dask knows it, its address, evaluations it may run at once."""

    name: Any
    address: str
    slots: int
    nanny: bool


class Trainers:
    """Slots of the cluster's trainers.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    restarted:
        Called from another thread when a restart has ended: name, and an error or None.
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
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, ValueError, KeyError) as error:
            raise SchedulerUnreachable(
                f"the scheduler at {self._client.scheduler_address()} does not answer: {error or type(error).__name__}"
                if hasattr(self._client, "scheduler_address")
                else f"the scheduler does not answer: {error or type(error).__name__}"
            ) from error
        found: dict[str, Trainer] = {}
        for address, worker in workers.items():
            slots = int((worker.get("resources") or {}).get(EVALUATION, 0))
            if slots and worker.get("status", "running") == "running":
                found[str(worker["name"])] = Trainer(worker["name"], address, slots, worker.get("nanny") is not None)
        for name, trainer in found.items():
            before = self.present.get(name)
            if before is None or before.address != trainer.address:
                self.evaluations[name] = 0
        self.present = found
        return found

    def free(self) -> list[Trainer]:
        """Return trainers with a free slot, once per slot, the idlest first, in the order of their names."""
        slots = [
            (len(self.used.get(name, ())) + taken, name)
            for name, trainer in self.present.items()
            if name not in self.restarting
            for taken in range(trainer.slots - len(self.used.get(name, ())))
        ]
        return [self.present[name] for _, name in sorted(slots)]

    @property
    def slots(self) -> int:
        return sum(trainer.slots for trainer in self.present.values())

    def take(self, name: str, key: str) -> None:
        self.used.setdefault(name, set()).add(key)

    def give_back(self, name: str, key: str, *, evaluated: bool) -> None:
        self.used.get(name, set()).discard(key)
        if evaluated:
            self.evaluations[name] = self.evaluations.get(name, 0) + 1

    def restart(self, name: str) -> bool:
        """Restart a trainer's process, beside everything else; False if it has no nanny to do so."""
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
            self._client.restart_workers([trainer.address], timeout=RESTART_TIMEOUT_S, raise_for_error=False)
        except Exception as error:  # noqa: BLE001 - handed to the executor, which looks who is there
            failure = error
        self._restarted(str(trainer.name), failure)
