"""Instructions of the stage scheduler: run, save, halt, answer, refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from daskevo.tuning.plan import Waiter
from daskevo.tuning.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Run:
    """Train along a trajectory on a trainer.

    Parameters
    ----------
    work:
        Identifies the task in instructions and events.
    trainer:
        Name of the trainer.
    trajectory:
        The hyper-parameters; up to `start` they equal those that `snapshot` was trained with.
    start:
        Number of steps already trained.
    snapshot:
        Name of the stored state after `start` steps; None at step 0.
    in_memory:
        Whether the trainer should still have that state in memory, from its last task.
    marks:
        Steps at which to save, and whether to evaluate there, in ascending order; the task ends at the last one. A mark
        at `start` is only evaluated. # (n_marks, 2)
    estimated_s:
        Estimated seconds, including the start.
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
    """Make a running task save, and optionally evaluate, at one more step, which it has not passed as far as known.

    If it has, it reports so (:meth:`Scheduler.missed`).
    """

    work: str
    trainer: str
    step: int
    evaluate: bool


@dataclass(frozen=True, slots=True)
class Halt:
    """End a running task early: after step `after`, which is one of its marks, or at the next step (None)."""

    work: str
    trainer: str
    after: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """Give a waiting request its metrics."""

    waiter: Waiter
    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Tell a waiting request that there will be no metrics, and why."""

    waiter: Waiter
    step: int
    why: str


Instruction = Run | Save | Halt | Answer | Refuse
