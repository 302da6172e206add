"""Work that trainers have: where it is, what it will have saved and evaluated, who may still ask something of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from daskevo.tuning.plan import State
from daskevo.tuning.stages import Promises


@dataclass(slots=True)
class StageMark:
    """What is to be done at a step: always saved, where steps were trained; perhaps evaluated."""

    evaluate: bool
    saved: bool = False
    measured: bool = False


@dataclass(slots=True)
class Work:
    """Stages that a trainer does one after the other.

    Parameters
    ----------
    key:
        Names it.
    trainer:
        Who does it.
    start:
        The step that it begins after.
    legs:
        Node and last step of each stage, in order. # (n_stages, 2)
    marks:
        What is to be done at which step, in order of steps.
    reached:
        The last step that it is known to have trained.
    stopping:
        Nobody waits for anything of it: nothing more is promised.
    halted:
        It was told to end at once, wherever it is.
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
        """The step that it ends at."""
        return self.legs[-1].step

    def state_at(self, step: int) -> State | None:
        """Return the state at one of its steps; None if it isn't one."""
        if step == self.start == self.stop:
            return self.legs[0]
        if not self.start < step <= self.stop:
            return None
        return next(State(leg.node, step) for leg in self.legs if step <= leg.step)

    def passes(self, state: State) -> bool:
        """Tell whether it trains through a state that it hasn't reached yet, as far as is known."""
        return not self.stopping and self.reached < state.step and self.state_at(state.step) == state

    def mark(self, step: int, *, evaluate: bool) -> bool:
        """Have the model saved at a step, and perhaps evaluated; False if that is so already."""
        mark = self.marks.get(step)
        if mark is not None and (mark.evaluate or not evaluate):
            return False
        if mark is None:
            self.marks = dict(sorted({**self.marks, step: StageMark(evaluate)}.items()))
        else:
            mark.evaluate = True
        return True

    def shorten(self, stop: int) -> None:
        """End it at an earlier mark."""
        last = self.state_at(stop)
        assert last is not None
        self.legs = [*(leg for leg in self.legs if leg.step < stop), last]
        self.marks = {step: mark for step, mark in self.marks.items() if step <= stop}

    def failing(self, *, lost: bool = False) -> State | None:
        """Return the end of the stage that it is in: the first mark with something left to do.

        Parameters
        ----------
        lost:
            What was to be stored beside the training is lost with it: that is left to do, too.
        """
        for step, mark in self.marks.items():
            unsaved = lost and not mark.saved and step > self.start
            if step > self.reached or (mark.evaluate and not mark.measured) or unsaved:
                return self.state_at(step)
        return None


@dataclass
class RunningStages:
    """All work that trainers have, found by its key and by its nodes."""

    works: dict[str, Work] = field(default_factory=dict)
    _by_node: dict[int, dict[str, Work]] = field(default_factory=dict)

    def add(self, work: Work) -> None:
        self.works[work.key] = work
        for leg in work.legs:
            self._by_node.setdefault(leg.node, {})[work.key] = work

    def pop(self, key: str) -> Work | None:
        """Take work off; None if it isn't there (any more)."""
        work = self.works.pop(key, None)
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
