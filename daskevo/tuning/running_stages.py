"""Running tasks of trainers: their progress, and the steps at which they will save and evaluate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from daskevo.tuning.plan import State
from daskevo.tuning.stages import Promises


@dataclass(slots=True)
class StageMark:
    """Actions at a step: save, if steps were trained, and optionally evaluate."""

    evaluate: bool
    saved: bool = False
    measured: bool = False


@dataclass(slots=True)
class Work:
    """Consecutive stages that a trainer runs as one task.

    Parameters
    ----------
    key:
        Identifies the task.
    trainer:
        Name of the trainer.
    start:
        Number of steps before its first one.
    legs:
        Node and last step of each stage, in order. # (n_stages, 2)
    marks:
        Step -> actions, ordered by step.
    reached:
        Last step known to be trained.
    stopping:
        True if no request needs it any more: it promises nothing further.
    halted:
        True if it was told to end at once.
    """

    key: str
    trainer: str
    start: int
    legs: list[State]
    marks: dict[int, StageMark]
    reached: int = 0
    stopping: bool = False
    halted: bool = False

    @property
    def stop(self) -> int:
        """The step at which it ends."""
        return self.legs[-1].step

    def state_at(self, step: int) -> State | None:
        """Return the state at one of its steps; None for other steps."""
        # A task that trains nothing, and only evaluates the state that it starts from.
        if step == self.start == self.stop:
            return self.legs[0]
        if not self.start < step <= self.stop:
            return None
        return next(State(leg.node, step) for leg in self.legs if step <= leg.step)

    def passes(self, state: State) -> bool:
        """Tell whether it will still train through a state, as far as its progress is known."""
        return not self.stopping and self.reached < state.step and self.state_at(state.step) == state

    def mark(self, step: int, *, evaluate: bool) -> bool:
        """Add a save, and optionally an evaluation, at a step; return False if it is already planned."""
        mark = self.marks.get(step)
        if mark is not None and (mark.evaluate or not evaluate):
            return False
        if mark is None:
            # In order of steps, which `failing` and the trainer rely on.
            self.marks = dict(sorted({**self.marks, step: StageMark(evaluate)}.items()))
        else:
            mark.evaluate = True
        return True

    def shorten(self, stop: int) -> None:
        """End the task at an earlier mark."""
        last = self.state_at(stop)
        assert last is not None
        self.legs = [*(leg for leg in self.legs if leg.step < stop), last]
        self.marks = {step: mark for step, mark in self.marks.items() if step <= stop}

    def failing(self, *, lost: bool = False) -> State | None:
        """Return the end of its current stage: the first mark with an action left.

        Parameters
        ----------
        lost:
            True if snapshots not yet stored are lost with the task: then saving them counts as left to do.
        """
        for step, mark in self.marks.items():
            unsaved = lost and not mark.saved and step > self.start
            if step > self.reached or (mark.evaluate and not mark.measured) or unsaved:
                return self.state_at(step)
        return None


@dataclass
class RunningStages:
    """All running tasks, indexed by key and by node."""

    works: dict[str, Work] = field(default_factory=dict)
    _by_node: dict[int, dict[str, Work]] = field(default_factory=dict)

    def add(self, work: Work) -> None:
        self.works[work.key] = work
        for leg in work.legs:
            self._by_node.setdefault(leg.node, {})[work.key] = work

    def pop(self, key: str) -> Work | None:
        """Take work off; None if it isn't there (any more)."""
        work = self.works.pop(key, None)
        # At all nodes: `shorten` may have taken some of its stages away since it was added.
        for some in self._by_node.values() if work is not None else ():
            some.pop(key, None)
        return work

    def passing(self, state: State) -> Iterator[Work]:
        """Yield the work that trains through a state that it hasn't reached."""
        for work in self._by_node.get(state.node, {}).values():
            if work.passes(state):
                yield work

    def storing(self) -> set[State]:
        """Return the states that were evaluated and are not known to be stored yet."""
        return {
            state
            for work in self.works.values()
            for step, mark in work.marks.items()
            if mark.measured and not mark.saved and step > work.start
            if (state := work.state_at(step)) is not None
        }

    def promises(self) -> Promises:
        """Return what all of it will have saved and evaluated."""
        saves: dict[int, set[int]] = {}
        evaluations: set[State] = set()
        for work in self.works.values():
            # It ends at the next step, and what it would have saved must be trained by another.
            if work.stopping:
                continue
            for step, mark in work.marks.items():
                state = work.state_at(step)
                assert state is not None
                if not mark.saved:
                    saves.setdefault(state.node, set()).add(step)
                if mark.evaluate:
                    evaluations.add(state)
        return Promises(saves, evaluations)
