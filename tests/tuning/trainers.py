"""Trainers that obey a scheduler one step at a time, and check that what they are told can be done."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping

from daskevo.tuning import Answer, Halt, Instruction, Refuse, Run, Save, Scheduler, Trajectory, Waiter


class Trainers:
    """Some trainers, what they have stored, and what became of all requests.

    Whatever happens, the checks hold: a run begins with a stored state of its trajectory, no trainer has two, an answer
    is the one that was asked for, and comes once.
    """

    def __init__(self, scheduler: Scheduler, names: Iterable[str]) -> None:
        self.scheduler = scheduler
        self.running: dict[str, tuple[Run, dict[int, bool]]] = {}
        self.steps: dict[str, int] = {}
        self.store: dict[str, tuple[Trajectory, int]] = {}
        self.metrics: dict[str, tuple[Trajectory, int, dict[str, float]]] = {}
        self.trained: Counter[str] = Counter()
        self.asked: dict[Waiter, tuple[Trajectory, int]] = {}
        self.answers: dict[Waiter, Mapping[str, float]] = {}
        self.refused: dict[Waiter, str] = {}
        self.starts = 0
        for name in names:
            scheduler.trainer(name)

    def ask(self, waiter: Waiter, trajectory: Trajectory, step: int) -> None:
        self.asked[waiter] = trajectory, step
        self.obey(self.scheduler.add(waiter, trajectory, step))

    def take_back(self, waiter: Waiter) -> None:
        self.scheduler.remove(waiter)
        self.asked.pop(waiter, None)

    def decide(self) -> None:
        self.obey(self.scheduler.decide())

    def obey(self, instructions: Iterable[Instruction]) -> None:
        for told in instructions:
            match told:
                case Run():
                    assert all(run.trainer != told.trainer for run, _ in self.running.values())
                    assert (told.start == 0) == (told.snapshot is None)
                    if told.snapshot is not None:
                        trajectory, step = self.store[told.snapshot]
                        assert step == told.start
                        assert trajectory.key(step) == told.trajectory.key(step)
                    assert list(told.marks) == sorted(told.marks)
                    assert told.start <= told.marks[0][0]
                    self.running[told.work] = told, dict(told.marks)
                    self.steps[told.work] = told.start
                    self.starts += 1
                case Save():
                    assert self.running[told.work][0].trainer == told.trainer
                    assert self.steps[told.work] < told.step < self.running[told.work][0].stop + (told.evaluate)
                    self.running[told.work][1][told.step] = told.evaluate
                case Halt():
                    self._halt(told)
                case Answer():
                    trajectory, step = self.asked[told.waiter]
                    assert told.waiter not in self.answers
                    assert step == told.step
                    assert told.metrics == figures(trajectory, step)
                    self.answers[told.waiter] = told.metrics
                case Refuse():
                    assert told.waiter not in self.answers
                    self.refused[told.waiter] = told.why

    def _halt(self, told: Halt) -> None:
        run, marks = self.running[told.work]
        if told.after is None:
            self._end(told.work)
        else:
            assert told.after in marks
            assert told.after > self.steps[told.work]
            self.running[told.work] = run, {step: mark for step, mark in marks.items() if step <= told.after}

    def _end(self, work: str) -> None:
        del self.running[work]
        self.scheduler.ended(work)

    def advance(self, work: str) -> None:
        """Train one step, or evaluate where there is none to train."""
        run, marks = self.running[work]
        step = self.steps[work]
        if step < max(marks):
            step = self.steps[work] = step + 1
            self.trained[run.trajectory.key(step)] += 1
            self.scheduler.progress(work, step)
        if step in marks:
            name = run.trajectory.key(step)
            if step > run.start:
                self.store[name] = run.trajectory, step
                self.obey(self.scheduler.saved(work, step, name))
            if marks[step]:
                self.metrics[name] = run.trajectory, step, figures(run.trajectory, step)
                self.obey(self.scheduler.measured(work, step, figures(run.trajectory, step)))
        if step == max(marks):
            self._end(work)
        self.decide()

    def finish(self, rng: random.Random, most: int = 10_000) -> None:
        """Go on, in any order, until nobody has anything to do."""
        self.decide()
        for _ in range(most):
            if not self.running:
                return
            self.advance(rng.choice(sorted(self.running)))
        raise AssertionError(f"no end after {most} steps")

    def lose(self, name: str) -> None:
        """Have a trainer die, and come back."""
        self.running = {work: there for work, there in self.running.items() if there[0].trainer != name}
        self.obey(self.scheduler.left(name))
        self.scheduler.trainer(name)
        self.decide()

    @property
    def unsaved(self) -> int:
        """Steps that would be lost if all trainers died now."""
        return sum(
            self.steps[work] - max([run.start, *(step for step, _ in run.marks if step <= self.steps[work])])
            for work, (run, _) in self.running.items()
        )

    def restore(self, scheduler: Scheduler) -> None:
        """Have all processes die but the stores: everything goes on with another scheduler."""
        for name, (trajectory, step) in self.store.items():
            scheduler.plan.saved(scheduler.plan.locate(trajectory, step), name)
        for trajectory, step, metrics in self.metrics.values():
            scheduler.plan.measured(scheduler.plan.locate(trajectory, step), metrics)
        names = list(self.scheduler.trainers)
        self.scheduler, self.running = scheduler, {}
        for name in names:
            scheduler.trainer(name)
        for waiter in [waiter for waiter in self.asked if waiter not in self.answers and waiter not in self.refused]:
            self.ask(waiter, *self.asked[waiter])
        self.decide()


def figures(trajectory: Trajectory, step: int) -> dict[str, float]:
    """Metrics that only this state has."""
    return {"figure": float(int(trajectory.key(step)[:8], 16))}


def works(trainers: Trainers) -> list[tuple[str, int, tuple[tuple[int, bool], ...]]]:
    """What is running: trainer, start and marks."""
    return [(run.trainer, run.start, tuple(marks.items())) for run, marks in trainers.running.values()]
