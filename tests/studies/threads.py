"""A crew of threads that train nothing but obey: the state of a model is the name of the steps that it was trained."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from daskevo.tuning import Halt, Run, Save, Trajectory
from daskevo.tuning.stage_scheduler import Failure
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.stage_commands import Orders
from daskevo_workflows.studies.work import carry_out


def figures(trajectory: Trajectory, step: int) -> dict[str, float]:
    """Figures that depend on the state only."""
    return {"loss": int(trajectory.key(step)[:6], 16) / 16**6}


class Fault(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(f"a {failure} that was asked for")
        self.failure = failure


class Pretended:
    """A training that counts its steps in `trained`, by the name of the state that each makes."""

    def __init__(self, trajectory: Trajectory, step: int, crew: ThreadCrew) -> None:
        self.trajectory, self.step, self.crew = trajectory, step, crew
        self.seconds: dict[str, float] = {"load": 0.5}

    def advance(self, until: int, passed: Callable[[int], bool]) -> int:
        while self.step < until:
            self.crew.before_step(self.trajectory, self.step + 1)
            self.step += 1
            self.seconds["training"] = self.seconds.get("training", 0.0) + 1.0
            with self.crew.lock:
                self.crew.trained[self.trajectory.key(self.step)] += 1
            if not passed(self.step):
                break
        return self.step

    def snapshot(self) -> str:
        return self.trajectory.key(self.step)

    def score(self) -> dict[str, float]:
        self.crew.before_score(self.trajectory, self.step)
        return figures(self.trajectory, self.step)


class ThreadCrew:
    """Trainers that are threads of this process.

    Parameters
    ----------
    names:
        Of the trainers.
    store:
        Name of a snapshot -> the state's name; may be shared by several crews, one after the other.
    before_step, before_score:
        Called by a training with its trajectory and step; may wait, or raise a :class:`Fault`.
    """

    def __init__(
        self,
        *names: str,
        store: dict[str, str] | None = None,
        before_step: Callable[[Trajectory, int], None] = lambda trajectory, step: None,
        before_score: Callable[[Trajectory, int], None] = lambda trajectory, step: None,
    ) -> None:
        self.names = names
        self.store = {} if store is None else store
        self.before_step, self.before_score = before_step, before_score
        self.lock = threading.Lock()
        self.trained: Counter[str] = Counter()
        self.replies: list[tuple[Save, str]] = []
        self.runs: list[Run] = []
        self.rooms: list[tuple[str, bool]] = []
        self._turns = 0
        self._numbers = itertools.count()
        self._working: dict[str, tuple[Orders, threading.Thread]] = {}

    def begin(self, controller: Controller) -> None:
        self.controller = controller
        for name in self.names:
            controller.came(name, 0)

    def know(self, origin: str, setting: Any) -> None:
        assert setting is not None

    def start(self, run: Run) -> None:
        self.runs.append(run)
        orders = Orders(run.start, run.marks)
        thread = threading.Thread(target=self._work, args=(run, orders), daemon=True)
        self._working[run.work] = orders, thread
        thread.start()

    def order(self, told: Save | Halt) -> None:
        orders, _ = self._working[told.work]
        if isinstance(told, Halt):
            orders.halt(told.after)
            return
        reply = orders.save(told.step, evaluate=told.evaluate)
        self.replies.append((told, reply))
        self.controller.post(lambda: self.controller.replied(told.work, told.step, reply))

    def watch(self) -> None:
        self._turns += 1

    def settle(self) -> None:
        """Wait until the controller has decided upon all that came in before this: it does so after each `watch`."""
        self.controller.call(lambda: None)
        decided = self._turns + 2
        while self._turns < decided:
            self.controller.call(lambda: None)

    def copy(self, work: str) -> bool:
        self._working[work][0].copy()
        return True

    def room(self, work: str, made: bool) -> None:
        self.rooms.append((work, made))

    def close(self, patience_s: float) -> None:
        for orders, _ in self._working.values():
            orders.halt(None)

    def lose(self, name: str) -> None:
        """Have a trainer die, and another of its name come."""
        for run in self.runs:
            if run.trainer == name:
                self._working[run.work][0].halt(None)

        def dies() -> None:
            self.controller.went(name)
            self.controller.came(name, 0)

        self.controller.post(dies)

    def _work(self, run: Run, orders: Orders) -> None:
        controller, post = self.controller, self.controller.post
        if run.snapshot is not None and run.snapshot not in self.store:
            post(lambda: controller.vanished(run.work, f"no snapshot {run.snapshot}"))
            return
        if run.snapshot is not None:
            assert self.store[run.snapshot] == run.trajectory.key(run.start)
        telling = _Telling(self, run)
        try:
            carry_out(Pretended(run.trajectory, run.start, self), orders, telling)
        except Fault as fault:
            failure, why = fault.failure, str(fault)
            post(lambda: controller.broke(run.work, failure, why))
        else:
            post(lambda: controller.ended(run.work))

    def put(self, run: Run, step: int, state: str, metrics: Mapping[str, float] | None) -> str:
        """Store a state, and return its name."""
        name = f"snap-{next(self._numbers)}"
        self.store[name] = state
        return name


class _Telling:
    def __init__(self, crew: ThreadCrew, run: Run) -> None:
        self.crew, self.run, self.work = crew, run, run.work
        self.controller = crew.controller

    def progress(self, step: int) -> None:
        self.controller.post(lambda: self.controller.progress(self.work, step))

    def trained(self, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        self.controller.post(lambda: self.controller.trained(self.work, start, stop, seconds))

    def measured(self, step: int, metrics: Mapping[str, float]) -> None:
        self.controller.post(lambda: self.controller.measured(self.work, step, metrics))

    def keep(self, step: int, snapshot: Any, metrics: Mapping[str, float] | None, kind: str) -> None:
        if kind == "known":
            return
        name = self.crew.put(self.run, step, snapshot, metrics)
        self.controller.post(lambda: self.controller.saved(self.work, step, name, kind))
