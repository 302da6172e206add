"""A study: a space of configurations of one problem, whose trials are trained together wherever they are alike."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from daskevo.errors import InvalidInput
from daskevo.search import Report, Request, Strategy, model_id
from daskevo.space import Candidate
from daskevo.tuning import Configuration, ConfigurationSpace, StepSequence, Trajectory
from daskevo.tuning.plan import State
from daskevo_workflows.execution.deadline import WALLTIME, At, moment_of
from daskevo_workflows.execution.letting_go import LETTING_GO_S, hurried_s
from daskevo_workflows.studies.accounts import Figures
from daskevo_workflows.studies.controller import Controller, ControllerWish
from daskevo_workflows.studies.forecast import StudyForecast, forecast
from daskevo_workflows.studies.result import FoundTrial, StudyResult
from daskevo_workflows.studies.snapshot_retention import SnapshotRetention
from daskevo_workflows.studies.strategy_driver import AT_ONCE, Leading
from daskevo_workflows.studies.study_record import Ledger
from daskevo_workflows.studies.trial_lines import Line

Point = Candidate | Mapping[str, Any] | FoundTrial
"""A candidate of the space; its options by name, sequences or constants; or what was found, to go on with it."""

Metrics = Mapping[str, float]

T = TypeVar("T")

STORED_S = 60.0
"""How long `until_stored` waits: a state that isn't stored by then is trained again if somebody wants it."""

HURRIED_S = 5.0
"""How long the end of a study waits for what is stored, when its time is over."""

Done = Callable[[Request, Report | BaseException], None]
"""Called with each report, or with what ended all."""

_numbers = itertools.count()


class Study:
    """Made by :func:`daskevo_workflows.tune.study`; use it in a ``with`` block.

    Calls may come from several threads: each strategy is led in the thread that calls `run`.

    Attributes
    ----------
    space, objective, seed:
        As it was made.
    folder:
        Of the run.
    """

    def __init__(
        self,
        *,
        controller: Controller,
        is_owner: bool,
        space: ConfigurationSpace,
        ledger: Callable[[], Ledger],
        origin: str,
        setting: Any,
        check: Callable[[Configuration, int], None],
        seed: int = 0,
        steps: int | None = None,
        repository: Any = None,
        stored: Iterable[Any] = (),
    ) -> None:
        self.controller = controller
        self.space = space
        self.seed = seed
        self.origin = origin
        self.repository = repository
        self._steps = steps
        self._is_owner = is_owner
        self._check = check
        self._name = f"study-{next(_numbers)}"
        self._points: dict[Candidate, Request] = {}
        self.asking = threading.Lock()
        """Held while requests are numbered and recorded."""
        self._ledger: Ledger = controller.call(ledger)
        self.objective = self._ledger.objective
        self.folder = self._ledger.record.folder
        self._points |= {request.candidate: request for request in controller.call(self._ledger.by_hand)}
        self._open = True
        self._stored_s, self._patience_s = STORED_S, LETTING_GO_S
        self._futures: dict[int, Future[Metrics]] = {}
        self._keeper = None if repository is None else controller.call(partial(self._keep, stored))
        controller.join(origin, setting(self._ledger.info.label), self._ledger, self._keeper)

    def _keep(self, stored: Iterable[Any]) -> SnapshotRetention:
        return SnapshotRetention(
            self.controller, self.repository, self._ledger, self.origin, self._ledger.info.label, stored
        )

    def __enter__(self) -> Study:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.close("interrupted" if interrupted else "closed" if kind is None else "error")

    def close(self, ended: str = "closed") -> None:
        """End what is under way for this study, and its record; the same study, opened again, goes on.

        Trainers that have not ended it 10 s later are restarted if the study has them for itself.
        """
        if not self._open:
            return
        self._open = False

        def close() -> None:
            # A request that is taken back here is no report: it is pending in the record.
            futures, self._futures = self._futures, {}
            self._ledger.close(ended)
            for future in futures.values():
                future.cancel()

        try:
            if ended == "closed":
                until_stored(self.controller, limit_s=self._stored_s)
            if self.controller.failure is None:
                if self._keeper is not None:
                    self._keeper.close()
                self._read(close)
                self.controller.leave(self.origin, self._ledger, self._keeper)
        finally:
            if self._keeper is not None:
                self._keeper.stop()
            if self._is_owner:
                self.controller.close(0.0 if ended == "interrupted" else self._patience_s)

    # What one wants to know

    def submit(self, point: Point, step: int) -> Future[Metrics]:
        """Ask for the metrics of a point after `step` steps.

        A point that was asked for before goes on from there.

        Returns
        -------
        concurrent.futures.Future
            Of the metrics; its `cancel` takes the request back, and ``asyncio.wrap_future`` makes it awaitable. It
            raises TrialFailed where training failed.

        Raises
        ------
        InvalidInput
            If there is no such point, or the problem can't be trained so.
        """
        before: Request | None
        if isinstance(point, FoundTrial):
            candidate, before = point.candidate, point.request
        else:
            candidate = self._candidate(point)
            before = self._points.get(candidate)
        with self.asking:
            number = self.controller.call(lambda: self._ledger.next_number)
            request = Request(
                number, model_id(self._ledger.info.label, number), candidate, ancestor=None, until_step=step
            )
            if before is not None and step > (before.until_step or 0):
                request = replace(request, continues=before.model_id)
            (future,) = self.ask([request])
        self._points[candidate] = request
        return future

    def evaluate(self, point: Point, step: int) -> Metrics:
        """Return the metrics of a point after `step` steps; raises as :meth:`submit` and its future do."""
        return self.submit(point, step).result()

    def run(
        self,
        strategy: Strategy,
        *,
        evaluations: int | None = None,
        steps: int | None = None,
        at_once: int = AT_ONCE,
        time_limit_s: float | None = None,
        deadline: At = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> StudyResult:
        """Have a strategy lead until it stops.

        Parameters
        ----------
        strategy:
            Any of :mod:`daskevo.search`. One that the study has seen before, with the same settings, goes on where it
            was.
        evaluations:
            Finished requests of this strategy in total, at most; None: until it stops by itself.
        steps:
            Of a whole training, for strategies that don't say it, in the unit of the space; None: the study's.
        at_once:
            Requests that it may have under way. More of them share more; it learns from fewer before it asks again.
        time_limit_s:
            Limit of this call, in seconds: what is trained then is trained again from its last snapshot.
        deadline:
            When this process must be done, such as the end of its batch job: seconds since the epoch, or a function
            that returns them (or None) and is asked again and again. Some 20 s before (``daskevo.batch.grace`` in
            Dask's configuration), and the time of a step, what is being trained is stored as it is; then this ends as
            "walltime", and the same call goes on from there.
        on_progress:
            Called about once a second with :class:`daskevo_workflows.studies.strategy_driver.StudyProgress`.

        Raises
        ------
        InvalidInput
            If the strategy can't explore the space, nobody says how far trials are trained, or it asks for what a
            study can't do: another `repeat` (:class:`daskevo.search.Repeat`), `training`, `sequence`, `priority`, or an
            `ancestor` by name. Then nothing of that answer is trained.
        """
        moment_of(deadline)  # refuses what is none before anything is trained
        leading = Leading(self, self._ledger, strategy, evaluations, steps or self._steps, at_once)
        stop = leading.go(time_limit_s, on_progress, deadline)
        if stop[0] == WALLTIME:
            self._stored_s, self._patience_s = HURRIED_S, hurried_s()
        return StudyResult(self, leading.prefix, stop)

    def result(self) -> StudyResult:
        """Return what was found so far, by all strategies and points."""
        return StudyResult(self, self._ledger.info.label, ("", ""))

    def figures(self) -> Figures:
        """Return the study's figures of this moment."""
        return self._read(self._ledger.figures)

    # Before training

    def merge_rate(self, points: Iterable[Point] | None = None, step: int | None = None) -> float:
        """Return how many times the steps of some points are of those that are not alike; see :meth:`forecast`."""
        return self.forecast(points, step).merge_rate

    def forecast(self, points: Iterable[Point] | None = None, step: int | None = None) -> StudyForecast:
        """Foretell what points cost if each is trained until a step: exact in steps.

        Parameters
        ----------
        points:
            All of the space if None.
        step:
            The study's steps if None.
        """
        until = self.steps(step)
        candidates = self.space.enumerate() if points is None else map(self._candidate, points)  # type: ignore[attr-defined]
        trials = [(Trajectory(self.origin, self.space.configuration(each)), until) for each in candidates]
        controller = self.controller
        return controller.call(lambda: forecast(trials, controller.plan, controller.scheduler.costs))

    def steps(self, given: int | None = None) -> int:
        """Return the steps of a whole training.

        Raises
        ------
        InvalidInput
            If nobody has said.
        """
        if (steps := given or self._steps) is None:
            raise InvalidInput("nobody says how many steps a whole training has: give steps=")
        return steps

    # For those that lead

    def ask(self, requests: Sequence[Request], done: Done | None = None) -> list[Future[Metrics]]:
        """Record requests that are new, and have them answered; `done` is called with each report, or what ended all.

        Raises
        ------
        InvalidInput
            If one can't be; then none is asked.
        """
        for request in requests:
            self._check(self.space.configuration(request.candidate), request.until_step or 1)

        def add() -> list[Future[Metrics]]:
            new = [request for request in requests if request.number not in self._ledger.run_state.requests]
            self._ledger.ask(new)
            wishes = [
                ControllerWish(
                    (self._name, request.number), self._ledger.trajectory(request.model_id), request.until_step or 0
                )
                for request in requests
            ]
            futures = self.controller.request(wishes)
            began = time.time()
            for request, future in zip(requests, futures, strict=True):
                self._futures[request.number] = future
                future.add_done_callback(partial(self._end, request, began, done))
            return futures

        return self.controller.call(add)

    def _end(self, request: Request, began: float, done: Done | None, future: Future[Metrics]) -> None:
        def end() -> None:
            if self._futures.pop(request.number, None) is None:
                return  # the study was closed
            if future.cancelled():
                outcome: Any = self._ledger.stop(request)
            else:
                found = future.exception() or future.result()
                outcome = self._ledger.report(request, found, began) or found
            if done is not None:
                done(request, outcome)

        # In the controller's thread, whoever cancelled it; what goes wrong there ends all.
        self.controller.post(end)

    def withdraw(self, number: int) -> None:
        """Take a request back that stays pending in the record."""

        def withdraw() -> None:
            if (future := self._futures.pop(number, None)) is not None:
                future.cancel()

        if self.controller.failure is None:
            self.controller.call(withdraw)

    # For results

    def read(self, result: StudyResult, prefix: str) -> None:
        """Fill in what a result says of the requests whose model ids begin so."""

        def read() -> None:
            result.requests, result.reports = self._ledger.of(prefix)
            result.figures = self._ledger.figures()
            result.runtime_s = self._ledger.record.runtime_s

        self._read(read)

    def _read(self, function: Callable[[], T]) -> T:
        """Call a function in the controller's thread once whatever was answered is in the record."""
        # Whoever waits for a future is woken before its report is on its way there; once this is done, it is.
        self.controller.call(lambda: None)
        return self.controller.call(function)

    def snapshot(self, trajectory: Trajectory, step: int) -> str | None:
        """Return the name of the snapshot at a step, once it is stored; None if the repository has none."""
        plan = self.controller.plan

        def find() -> str | None:
            state = plan.find(trajectory, step)
            return None if state is None else plan.nodes[state.node].snapshots.get(state.step)

        until_stored(self.controller, lambda state: state == plan.find(trajectory, step))
        return self.controller.look(find)

    def line(self, request: Request) -> Line:
        """Return the trial of a request."""
        return self._ledger.lines[request.model_id]

    def _candidate(self, point: Point) -> Candidate:
        if isinstance(point, FoundTrial):
            return point.candidate
        if isinstance(point, Candidate):
            self.space.configuration(point)
            return point
        if not isinstance(point, Mapping):
            raise InvalidInput(
                f"a point of a study is a candidate of its space, or options by name, not {type(point).__name__}"
            )
        values = {name: one.to_json() if isinstance(one, StepSequence) else one for name, one in point.items()}
        return self.space.candidate(values)  # type: ignore[attr-defined,no-any-return]


def until_stored(
    controller: Controller, is_meant: Callable[[State], bool] = lambda state: True, limit_s: float = STORED_S
) -> None:
    """Wait until the states that were answered, or those that are meant, are stored, or nobody stores them any more.

    An answer is told before its state is stored.
    """

    def under_way() -> bool:
        return any(map(is_meant, controller.scheduler.under_way.storing()))

    until = time.monotonic() + limit_s
    while controller.failure is None and controller.look(under_way) and time.monotonic() < until:
        time.sleep(0.05)
