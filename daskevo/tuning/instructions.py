"""What a scheduler tells whoever carries it out: to run, mark, stop, answer and refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daskevo.tuning.plan import Waiter
from daskevo.tuning.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Run:
    """Have a trainer train along a trajectory.

    Parameters
    ----------
    work:
        Names the work, in instructions and events.
    trainer:
        Who is to do it.
    trajectory:
        With which hyper-parameters; the same, until `start`, as those that `snapshot` was trained with.
    start:
        The step to begin after.
    snapshot:
        Name of the stored state after `start` steps; None at step 0.
    in_memory:
        The trainer should have that state still, as the end of what it did last.
    marks:
        Steps at which the model is saved, and whether it is evaluated there, in ascending order; the last one is where
        the work ends. A mark at `start` is only evaluated. # (n_marks, 2)
    estimated_s:
        Seconds that it will probably take, its start included.
    """

    work: str
    trainer: str
    trajectory: Trajectory
    start: int
    snapshot: str | None
    in_memory: bool
    marks: tuple[tuple[int, bool], ...]
    estimated_s: float

    @property
    def stop(self) -> int:
        return self.marks[-1][0]


@dataclass(frozen=True, slots=True)
class Save:
    """Have running work save, and perhaps evaluate, at one more step, which it has not passed as far as is known.

    If it has, it says so (:meth:`Scheduler.missed`).
    """

    work: str
    trainer: str
    step: int
    evaluate: bool


@dataclass(frozen=True, slots=True)
class Halt:
    """Have running work end earlier: after step `after`, which is one of its marks, or at the next step (None)."""

    work: str
    trainer: str
    after: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell somebody the metrics that were waited for."""

    waiter: Waiter
    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell somebody that there will be no metrics, and why."""

    waiter: Waiter
    step: int
    why: str


Instruction = Run | Save | Halt | Answer | Refuse
