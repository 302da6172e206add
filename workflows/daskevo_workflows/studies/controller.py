"""The one thread that leads: it asks the scheduler what is to be done, and has a crew of trainers do it.

Whoever wants something, from any thread, and whatever happens to trainers, comes in by one queue. All that has happened
is taken in before anything is decided.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from daskevo.errors import RunError, TrialFailed
from daskevo.tuning import (
    Answer,
    Halt,
    Instruction,
    Refuse,
    Run,
    Save,
    Scheduler,
    SearchPlan,
    State,
    Trajectory,
    Waiter,
)
from daskevo.tuning.stage_scheduler import Failure
from daskevo_workflows.execution.letting_go import LETTING_GO_S
from daskevo_workflows.studies.participants import Crew, Keeper, Watcher
from daskevo_workflows.studies.stage_commands import Reply

logger = logging.getLogger(__name__)

T = TypeVar("T")

TICK_S = 1.0
"""How often trainers are looked at when nothing else happens."""

LARGER_S = 180.0
"""How long a stage that ran out of memory waits for a larger trainer to come, or to come back from a restart."""

STARTING = ("build", "load", "first_step")
"""Phases of a training that are paid per start, not per step."""


class ControllerWish(NamedTuple):
    """Who wants to know the metrics of which trajectory, after how many steps."""

    waiter: Waiter
    trajectory: Trajectory
    step: int


class Controller:
    """Leads any number of studies on one crew.

    Parameters
    ----------
    crew:
        Who trains.
    scheduler:
        Who decides; one that knows nothing if None.

    Notes
    -----
    Requests and `call` may be used from any thread, events in its own only (:meth:`post`).
    """

    def __init__(self, crew: Crew, scheduler: Scheduler | None = None) -> None:
        self.scheduler = Scheduler() if scheduler is None else scheduler
        self.crew = crew
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._futures: dict[Waiter, Future[Mapping[str, float]]] = {}
        self._runs: dict[str, Run] = {}
        self._late: set[tuple[str, int]] = set()
        self._beyond: dict[State, float] = {}
        self._watchers: dict[str, list[Watcher]] = {}
        self._keepers: dict[str, list[Keeper]] = {}
        self._closing = False
        self._patience_s = LETTING_GO_S
        self._over = threading.Lock()
        self.failure: BaseException | None = None
        """Why it has ended; None: it goes on."""
        self._thread = threading.Thread(target=self._go, daemon=True, name="daskevo-studies")
        self._thread.start()

    @property
    def plan(self) -> SearchPlan:
        return self.scheduler.plan

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        # A user who interrupts it wants it to end now.
        self.close(LETTING_GO_S if kind is None or issubclass(kind, Exception) else 0.0)

    def close(self, patience_s: float = LETTING_GO_S) -> None:
        """End all works, and this. What waits is cancelled.

        Parameters
        ----------
        patience_s:
            How long a work that hangs may go on before its trainer's process is ended; 0: it is left as it is.
        """
        self.post(partial(self._close, patience_s))
        self._thread.join()

    # From any thread

    def post(self, function: Callable[[], object]) -> None:
        """Have a function called in the controller's thread."""
        self._inbox.put(function)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the controller's thread and return what it returns, or raise what it raises."""
        if threading.current_thread() is self._thread:
            return function()
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - it is raised where the call was made
                future.set_exception(error)

        with self._over:
            if self.failure is not None:
                raise self.failure
            self.post(run)
        return future.result()

    def look(self, function: Callable[[], T]) -> T:
        """Do the same with a function that changes nothing, which works once this is over, too."""
        with self._over:
            is_over = self.failure is not None
        if is_over:
            self._thread.join()
            return function()
        return self.call(function)

    def request(self, wishes: Sequence[ControllerWish]) -> list[Future[Mapping[str, float]]]:
        """Ask for metrics; a future that is cancelled takes its request back.

        Raises
        ------
        InvalidInput
            As the scheduler does; then none is asked for.
        """

        def add() -> list[Future[Mapping[str, float]]]:
            for wish in wishes:
                self.plan.locate(wish.trajectory, wish.step)
            futures = []
            for wish in wishes:
                future: Future[Mapping[str, float]] = Future()
                self._futures[wish.waiter] = future
                self._carry_out(self.scheduler.add(wish.waiter, wish.trajectory, wish.step))
                future.add_done_callback(partial(self._take_back, wish.waiter))
                futures.append(future)
            return futures

        return self.call(add)

    def _take_back(self, waiter: Waiter, future: Future[Mapping[str, float]]) -> None:
        if future.cancelled():
            self.post(lambda: self._carry_out(self.scheduler.remove(waiter)))

    def join(self, origin: str, setting: Any, watcher: Watcher, keeper: Keeper | None = None) -> None:
        """Let a study take part, which is told of the works on trajectories of its origin.

        Parameters
        ----------
        setting:
            What the crew has to know of the origin.
        keeper:
            Of its snapshots; None: nobody changes their labels.
        """

        def add() -> None:
            self.crew.know(origin, setting)
            self._watchers.setdefault(origin, []).append(watcher)
            if keeper is not None:
                self._keepers.setdefault(origin, []).append(keeper)

        self.call(add)

    def leave(self, origin: str, watcher: Watcher, keeper: Keeper | None = None) -> None:
        """Let a study leave; nothing is told any more."""

        def remove() -> None:
            self._watchers[origin].remove(watcher)
            if keeper is not None:
                self._keepers[origin].remove(keeper)

        self.call(remove)

    # In its own thread

    def _go(self) -> None:
        try:
            self.crew.begin(self)
            while not self._closing:
                self._take_in()
                self.crew.watch()
                self._carry_out(self.scheduler.decide())
                self._give_up()
                for keeper in self._all_keepers():
                    keeper.turn()
        except BaseException as error:  # noqa: BLE001 - it is raised wherever somebody waits
            logger.info("the studies' controller ends: %s", error)
            self._end(error)
        else:
            self._end(RunError("the study is closed: open it again to go on with it"))

    def _take_in(self) -> None:
        try:
            function = self._inbox.get(timeout=TICK_S)
            while True:
                function()
                function = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _give_up(self) -> None:
        """Give up on stages that no trainer has had the memory for, for so long."""
        now = time.monotonic()
        self._beyond = {end: self._beyond.get(end, now) for end in self.scheduler.beyond}
        for end, since in self._beyond.items():
            if now - since > LARGER_S:
                self._carry_out(self.scheduler.give_up(end))

    def _close(self, patience_s: float) -> None:
        self._closing, self._patience_s = True, patience_s

    def _end(self, failure: BaseException) -> None:
        with self._over:
            self.failure = failure
        try:
            self.crew.close(self._patience_s)
        finally:
            # What came in meanwhile; calls that come later are refused.
            self.take_in_last()
            for future in self._futures.values():
                _settle(future, failure)
            self._futures.clear()
            self.take_in_last()
            for watcher in self.watchers:
                watcher.ended(failure)

    def take_in_last(self, timeout_s: float = 0.0) -> None:
        """Take in what happens while this ends, and wait so many seconds at most for something."""
        with suppress(queue.Empty):
            function = self._inbox.get(timeout=timeout_s) if timeout_s else self._inbox.get_nowait()
            while True:
                try:
                    function()
                except Exception:
                    logger.exception("something could not be taken in while the studies' controller ended")
                function = self._inbox.get_nowait()

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for told in instructions:
            match told:
                case Run():
                    self._runs[told.work] = told
                    self.crew.start(told)
                    for watcher in self._watchers.get(told.trajectory.origin, ()):
                        watcher.given(told)
                case Save() | Halt():
                    self.crew.order(told)
                case Answer():
                    if (future := self._futures.pop(told.waiter, None)) is not None:
                        _settle(future, told.metrics)
                case Refuse():
                    if (future := self._futures.pop(told.waiter, None)) is not None:
                        _settle(future, TrialFailed(told.why, step=told.step))

    def works_of(self, origin: str) -> list[str]:
        """Return the works under way on trajectories of an origin."""
        works = self.scheduler.under_way.works
        return [work for work, run in self._runs.items() if run.trajectory.origin == origin and work in works]

    # Events

    def came(self, trainer: str, memory_bytes: int = 0) -> None:
        """There is a trainer."""
        self._carry_out(self.scheduler.trainer(trainer, memory_bytes))

    def went(self, trainer: str) -> None:
        """A trainer died or left, and its work with it."""
        for work in [work for work, run in self._runs.items() if run.trainer == trainer]:
            self._over_with(work)
        self._carry_out(self.scheduler.left(trainer))

    def progress(self, work: str, step: int) -> None:
        """A work has trained until a step."""
        self.scheduler.progress(work, step)

    def trained(self, work: str, start: int, stop: int, seconds: Mapping[str, float]) -> None:
        """A work has trained some steps, in seconds by phase; none where it only built, loaded or scored."""
        self.scheduler.progress(work, stop)
        there, costs = self.scheduler.under_way.works.get(work), self.scheduler.costs
        state = None if there is None else there.state_at(stop)
        started, first = sum(seconds.get(phase, 0.0) for phase in STARTING), seconds.get("first_step", 0.0) > 0
        # The first step's seconds are those of a start.
        if state is not None:
            costs.trained(state.node, stop - start - first, seconds.get("training", 0.0))
        if started:
            costs.started(started)
        if scored := seconds.get("scoring", 0.0):
            costs.evaluated(scored)
        if (run := self._runs.get(work)) is not None:
            for watcher in self._watchers.get(run.trajectory.origin, ())[:1]:
                watcher.stage(run, start, stop, seconds)

    def saved(self, work: str, step: int, name: str, kind: str = "mark") -> None:
        """The state at a step is stored."""
        run = self._runs.get(work)
        if work in self.scheduler.under_way.works and kind != "known":
            self._carry_out(self.scheduler.saved(work, step, name))
        elif run is not None:
            self.plan.saved(self.plan.locate(run.trajectory, step), name)
        if (work, step) in self._late:
            self._late.discard((work, step))
            self.scheduler.missed(work, step)
        if run is not None:
            for watcher in self._watchers.get(run.trajectory.origin, ()):
                watcher.stored(run, step, name, kind)
            if (keeper := self._keeper(work)) is not None:
                keeper.stored(run, step, name, kind)

    def full(self, work: str, step: int, nbytes: int) -> None:
        """A state that is needed has found no room, so many bytes: its work waits to be told whether some was made."""
        if (keeper := self._keeper(work)) is not None:
            keeper.make_room(work, step, nbytes)
        else:
            self.crew.room(work, False)

    def unsaved(self, work: str, step: int, kind: str, why: str) -> None:
        """A state was not stored: a needed one is trained again by whoever needs it and has it not in memory."""
        if (keeper := self._keeper(work)) is not None:
            keeper.unsaved(step, kind, why)
        if kind == "mark":
            self.scheduler.missed(work, step)

    def measured(self, work: str, step: int, metrics: Mapping[str, float]) -> None:
        """The metrics at a step are known."""
        self._carry_out(self.scheduler.measured(work, step, metrics))

    def replied(self, work: str, step: int, reply: Reply) -> None:
        """A work was told to save at one more step."""
        if reply == "accepted":
            return
        there = self.scheduler.under_way.works.get(work)
        state = None if there is None else there.state_at(step)
        if state is None:
            return
        if reply == "saved" and step not in self.plan.nodes[state.node].snapshots:
            # It is on its way: said to be missed before it is there, the step would be trained again.
            self._late.add((work, step))
        else:
            self.scheduler.missed(work, step)

    def ended(self, work: str) -> None:
        """A work is over, and what it saved has been said."""
        self._over_with(work)
        self.scheduler.ended(work)

    def broke(self, work: str, failure: Failure, why: str) -> None:
        """A work ended in the middle."""
        self.note(work, "stage failed", f"{failure}: {why}")
        self._over_with(work)
        self._carry_out(self.scheduler.failed(work, failure, why))

    def vanished(self, work: str, why: str) -> None:
        """A work found no snapshot to begin with, or one that is corrupt: it is made anew."""
        run = self._runs.get(work)
        if run is not None:
            self.note(work, "snapshot gone", f"{why}; what it held is trained again")
            state = self.plan.locate(run.trajectory, run.start)
            # Meanwhile there may be another one of that state.
            if self.plan.nodes[state.node].snapshots.get(state.step) == run.snapshot:
                self.scheduler.gone(run.trajectory, run.start)
            for keeper in self._keepers.get(run.trajectory.origin, ()):
                keeper.forget(run.snapshot)
        self.ended(work)

    def note(self, work: str, kind: str, message: str, **facts: Any) -> None:
        """Tell the studies that a work is for of something that happened."""
        if (run := self._runs.get(work)) is not None:
            for watcher in self._watchers.get(run.trajectory.origin, ()):
                watcher.note(kind, message, work=work, trainer=run.trainer, step=run.start, **facts)

    def tell_all(self, kind: str, message: str, **facts: Any) -> None:
        """Tell all studies of something that happened."""
        for watcher in self.watchers:
            watcher.note(kind, message, **facts)

    @property
    def watchers(self) -> list[Watcher]:
        """All studies that take part, each once."""
        return list(dict.fromkeys(each for several in self._watchers.values() for each in several))

    def _keeper(self, work: str) -> Keeper | None:
        """Return who keeps what a work stores: of the studies that it is for, the one that joined last."""
        run = self._runs.get(work)
        keepers = None if run is None else self._keepers.get(run.trajectory.origin)
        return keepers[-1] if keepers else None

    def _all_keepers(self) -> list[Keeper]:
        return [keeper for several in self._keepers.values() for keeper in several]

    # For keepers

    @property
    def in_use(self) -> set[str]:
        """Snapshots that works begin with."""
        return {run.snapshot for run in self._runs.values() if run.snapshot is not None}

    def needed(self) -> set[str]:
        """Return the snapshots that some study needs."""
        return set().union(*(keeper.needed() for keeper in self._all_keepers()))

    def begun_with(self) -> set[str]:
        """Return those of them that are not only against failures of trainers."""
        return self.in_use.union(*(keeper.begun_with() for keeper in self._all_keepers()))

    def _over_with(self, work: str) -> None:
        if (run := self._runs.pop(work, None)) is not None:
            for watcher in self._watchers.get(run.trajectory.origin, ()):
                watcher.over(run)
        self._late = {late for late in self._late if late[0] != work}


def _settle(future: Future[Mapping[str, float]], outcome: Mapping[str, float] | BaseException) -> None:
    try:
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
    except InvalidStateError:
        logger.debug("a request was taken back while its answer came")
