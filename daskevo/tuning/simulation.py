"""Simulate studies without a cluster: real decisions, with trainers that only count seconds.

Deterministic. Estimates the cost of a study for a number of trainers, with or without sharing, a policy, and measured
costs.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol, cast

from daskevo.errors import InvalidInput
from daskevo.tuning.configuration import Configuration
from daskevo.tuning.instructions import Answer, Halt, Instruction, Refuse, Run, Save
from daskevo.tuning.policies import Policy
from daskevo.tuning.stage_scheduler import Scheduler
from daskevo.tuning.trajectory import Trajectory


class Trial(NamedTuple):
    """A configuration to evaluate after `until` steps."""

    name: str
    configuration: Configuration
    until: int


class SimulatedStudy(Protocol):
    """Asks for trials: all at the beginning, or more after each result."""

    def begin(self) -> Sequence[Trial]:
        """Return the first trials."""

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        """Return further trials, after the result of one."""


@dataclass(frozen=True)
class AllAtOnce:
    """A study with a fixed list of trials."""

    trials: tuple[Trial, ...]

    def begin(self) -> Sequence[Trial]:
        return self.trials

    def told(self, trial: Trial, metrics: Mapping[str, float]) -> Sequence[Trial]:
        return ()


def _one_second(configuration: Configuration, step: int) -> float:
    return 1.0


def _no_metrics(configuration: Configuration, step: int) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True)
class Machine:
    """Costs and results of a simulated trainer.

    Parameters
    ----------
    step_s:
        Seconds of the step that follows `step` steps of a configuration.
    start_s:
        Seconds to start with a model that is not in memory: loading, and overhead of the first step.
    evaluate_s:
        Seconds of an evaluation. Saving happens during training and costs nothing.
    metrics:
        Metrics of a configuration after a number of steps.
    """

    step_s: Callable[[Configuration, int], float] = _one_second
    start_s: float = 0.0
    evaluate_s: float = 0.0
    metrics: Callable[[Configuration, int], Mapping[str, float]] = _no_metrics


@dataclass
class Outcome:
    """Result of a simulated study.

    Parameters
    ----------
    total_steps:
        Steps of all trials if each were trained by itself; a continued trial counts up to its last step.
    trained_steps:
        Steps actually trained.
    makespan_s:
        Seconds until the last trial was answered.
    busy_s:
        Sum of the seconds in which trainers worked.
    starts, evaluations, snapshots:
        Number of each; starts are those with a model not in memory.
    answers:
        Study, trial and step -> metrics, and the time at which they were known.
    spans:
        Trained ranges: trajectory, first and last step, in order of their ends.
    """

    total_steps: int = 0
    trained_steps: int = 0
    makespan_s: float = 0.0
    busy_s: float = 0.0
    starts: int = 0
    evaluations: int = 0
    snapshots: int = 0
    answers: dict[tuple[str, str, int], tuple[Mapping[str, float], float]] = field(default_factory=dict)
    spans: list[tuple[Trajectory, int, int]] = field(default_factory=list)


class _Running:
    """A simulated trainer's task: it has trained `step` steps at time `clock_s`, and continues."""

    def __init__(self, run: Run, clock_s: float, step_s: Callable[[Configuration, int], float]) -> None:
        self.run = run
        self.begun_s = clock_s
        self.clock_s = clock_s
        self.step = run.start
        self.marks = dict(run.marks)
        self.evaluating: int | None = None
        self.event = -1
        configuration = run.trajectory.configuration
        # Sums from the beginning, so that the time of any step is a difference of two.
        self._seconds = [0.0, *accumulate(step_s(configuration, step) for step in range(run.start, run.stop))]

    def when(self, step: int) -> float:
        """Return the time at which it will have trained a step."""
        return self.clock_s + (self._seconds[step - self.run.start] - self._seconds[self.step - self.run.start])

    def step_at(self, when_s: float) -> int:
        """Return the last step it has trained at a time."""
        ahead = range(self.step + 1, max(self.marks, default=self.step) + 1)
        return self.step + bisect_right(ahead, when_s, key=self.when)


def simulate(
    studies: SimulatedStudy | Mapping[str, SimulatedStudy],
    trainers: int,
    machine: Machine | None = None,
    *,
    shared: bool = True,
    policy: Policy = "critical path",
    batched: bool = True,
    queued: bool = False,
    origin: str = "simulated",
) -> Outcome:
    """Simulate one study, or several by name at the same time, to their ends.

    Parameters
    ----------
    trainers:
        Number of equal trainers.
    shared:
        False: train every trial by itself; a continued one continues from its own snapshot.
    policy, batched, queued:
        See :class:`daskevo.tuning.Scheduler`.
    origin:
        Name of the origin of all trainings.

    Raises
    ------
    InvalidInput
        If there is no trainer, or from the scheduler.

    Examples
    --------
    >>> from daskevo.tuning import Constant, MultiStep
    >>> study = AllAtOnce(tuple(
    ...     Trial(str(at), Configuration({"lr": MultiStep(0.1, (at,), 0.1)}), 100) for at in (40, 60, 80)
    ... ))
    >>> shared, alone = (simulate(study, 1, shared=shared) for shared in (True, False))
    >>> shared.total_steps, shared.trained_steps, alone.trained_steps
    (300, 200, 300)
    """
    if trainers < 1:
        raise InvalidInput(f"trainers={trainers}: a study needs at least one")
    named = studies if isinstance(studies, Mapping) else {"study": studies}

    def begins_with(study: str, trial: str) -> str:
        return origin if shared else f"{origin}-{study}-{trial}"

    scheduler = Scheduler(policy=policy, batched=batched, queued=queued)
    return _Simulation(named, trainers, machine or Machine(), scheduler, begins_with).go()


class _Simulation:
    def __init__(
        self,
        studies: Mapping[str, SimulatedStudy],
        trainers: int,
        machine: Machine,
        scheduler: Scheduler,
        origin: Callable[[str, str], str],
    ) -> None:
        self.studies = studies
        self.machine = machine
        self.scheduler = scheduler
        self.origin = origin
        self.now_s = 0.0
        self.outcome = Outcome()
        self.trials: dict[tuple[str, str, int], Trial] = {}
        self.running: dict[str, _Running] = {}
        self.events: list[tuple[float, int, str]] = []
        self.noted = 0
        for number in range(trainers):
            scheduler.trainer(f"trainer-{number}")

    def go(self) -> Outcome:
        for name, study in self.studies.items():
            self._add(name, study.begin())
        self._carry_out(self.scheduler.decide())
        while self.events:
            # Process all events of one moment before deciding anything.
            self.now_s = self.events[0][0]
            while self.events and self.events[0][0] == self.now_s:
                _, event, work = heapq.heappop(self.events)
                there = self.running.get(work)
                # Else it was scheduled anew since, by a Save, and this entry is out of date.
                if there is not None and there.event == event:
                    self._happen(there)
            # As a trainer's heartbeat would: decisions depend on how far tasks are.
            for work, there in self.running.items():
                self.scheduler.progress(work, there.step_at(self.now_s))
            self._carry_out(self.scheduler.decide())
        lasts: dict[tuple[str | int, ...], int] = {}
        for *named, step in self.trials:
            lasts[tuple(named)] = max(step, lasts.get(tuple(named), 0))
        self.outcome.total_steps = sum(lasts.values())
        return self.outcome

    def _add(self, study: str, trials: Iterable[Trial]) -> None:
        for trial in trials:
            waiter = (study, trial.name, trial.until)
            self.trials[waiter] = trial
            trajectory = Trajectory(self.origin(study, trial.name), trial.configuration)
            self._carry_out(self.scheduler.add(waiter, trajectory, trial.until))

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        for told in instructions:
            match told:
                case Run():
                    self._start(told)
                case Save():
                    self.running[told.work].marks[told.step] = told.evaluate
                    self._go_on(self.running[told.work])
                case Answer():
                    self._answer(told)
                case Halt() | Refuse():
                    raise AssertionError(f"nothing fails or is taken back in a simulation, and there was {told}")

    def _answer(self, told: Answer) -> None:
        study, name, step = waiter = cast(tuple[str, str, int], told.waiter)
        self.outcome.answers[study, name, step] = told.metrics, self.now_s
        self.outcome.makespan_s = self.now_s
        self._add(study, self.studies[study].told(self.trials[waiter], told.metrics))

    def _start(self, run: Run) -> None:
        self.outcome.starts += not run.in_memory
        there = _Running(run, self.now_s, self.machine.step_s)
        there.clock_s += 0.0 if run.in_memory else self.machine.start_s
        self.running[run.work] = there
        self._go_on(there)

    def _go_on(self, there: _Running) -> None:
        """Schedule the next event: the end of an evaluation, or the next mark."""
        self.noted += 1
        there.event = self.noted
        when_s = there.clock_s if there.evaluating is not None else there.when(min(there.marks))
        heapq.heappush(self.events, (when_s, there.event, there.run.work))

    def _happen(self, there: _Running) -> None:
        run = there.run
        if there.evaluating is not None:
            step, there.evaluating = there.evaluating, None
            metrics = self.machine.metrics(run.trajectory.configuration, step)
            self._carry_out(self.scheduler.measured(run.work, step, metrics))
        else:
            step = min(there.marks)
            evaluate = there.marks.pop(step)
            self._trained(there, step)
            if step > run.start:
                self.outcome.snapshots += 1
                self._carry_out(self.scheduler.saved(run.work, step, run.trajectory.key(step)))
            if evaluate:
                self.outcome.evaluations += 1
                there.evaluating = step
                there.clock_s += self.machine.evaluate_s
        if there.evaluating is not None or there.marks:
            self._go_on(there)
        else:
            self._end(there)

    def _trained(self, there: _Running, until: int) -> None:
        if until > there.step:
            self.outcome.trained_steps += until - there.step
            self.outcome.spans.append((there.run.trajectory, there.step, until))
        there.clock_s, there.step = self.now_s, until

    def _end(self, there: _Running) -> None:
        del self.running[there.run.work]
        self.outcome.busy_s += self.now_s - there.begun_s
        self.scheduler.ended(there.run.work)
