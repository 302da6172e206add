"""What a trainer's process has in memory: the training of its last work, which the next one may go on with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from daskevo.errors import InvalidInput, SnapshotGone
from daskevo.tuning import Trajectory
from daskevo_workflows.problems.reference import data_of
from daskevo_workflows.studies.assignment import StageAssignment


@dataclass(frozen=True)
class _Held:
    training: Any
    trajectory: Trajectory


_held: _Held | None = None


def holds(assignment: StageAssignment) -> bool:
    """Tell whether what is in memory is the state that a work begins with."""
    run = assignment.run
    return (
        _held is not None
        and _held.training.step == run.start > 0
        and _held.trajectory.key(run.start) == run.trajectory.key(run.start)
    )


def _is_alike(assignment: StageAssignment) -> bool:
    """Tell whether what is in memory is the model of a work, at whatever step."""
    if _held is None:
        return False
    held, wanted = _held.trajectory, assignment.run.trajectory
    return held.origin == wanted.origin and held.configuration.header == wanted.configuration.header


def take(assignment: StageAssignment, snapshot: Any) -> tuple[Any, dict[str, float]]:
    """Return the training that a work goes on with: what is in memory, what was read, or a new one.

    With it, the seconds by phase that it had before this work.

    Parameters
    ----------
    snapshot:
        Of the step that the work begins after; None if that is in memory, or nothing was trained yet.

    Raises
    ------
    SnapshotGone
        If the snapshot was made by other versions, with which the training wouldn't be the same.
    """
    try:
        return _taken(assignment, snapshot)
    except InvalidInput as error:
        if error.facts.get("what") != "versions":
            raise
        # Trained again, instead of failing the trials: a study may be older than what is installed.
        raise SnapshotGone(error.message) from error


def _taken(assignment: StageAssignment, snapshot: Any) -> tuple[Any, dict[str, float]]:
    global _held
    from daskevo_workflows.stage_training import begin, resume

    setting, run = assignment.setting, assignment.run
    problem, data = setting.problem.load(), data_of(setting.problem)
    before = {} if _held is None else dict(_held.training.seconds)
    if holds(assignment):
        assert _held is not None
        training = _held.training
        training.follow(run.trajectory)
    elif snapshot is not None and _is_alike(assignment):
        # Of the same model: not built again, and its graphs are made already.
        assert _held is not None
        training = _held.training
        training.go_to(run.trajectory, snapshot)
    else:
        _held, before = None, {}  # before the next one is made: there may be no memory for two
        if snapshot is None:
            training = begin(problem, run.trajectory, data, seed=setting.seed)
        else:
            training = resume(problem, run.trajectory, data, snapshot, seed=setting.seed)
    _held = _Held(training, run.trajectory)
    return training, before


def drop() -> None:
    """Forget what is in memory: something went wrong with it."""
    global _held
    _held = None
