"""Check that a problem's training ends with the same bits however it is cut into stages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from daskevo.errors import InvalidProblem
from daskevo.repository import Snapshot
from daskevo.tuning import Trajectory
from daskevo_workflows.stage_training.begin import begin, resume


def check_exact(
    problem: Any, trajectory: Trajectory, data: Any, *, until: int, cuts: Iterable[int], seed: int = 0
) -> Snapshot:
    """Train in one piece and in several, and check that both end with the same bits.

    Parameters
    ----------
    problem, trajectory, data, seed:
        As :func:`begin` takes them.
    until:
        The step to train to.
    cuts:
        Steps at which the second training is scored, saved, and gone on with from what was saved.

    Returns
    -------
    Snapshot
        The end.

    Raises
    ------
    InvalidProblem
        Naming what differs.
    """
    whole = begin(problem, trajectory, data, seed=seed)
    whole.advance(until, lambda step: True)
    cut = begin(problem, trajectory, data, seed=seed)
    for step in sorted(set(cuts)):
        cut.advance(step, lambda step: True)
        # Scoring is part of the check: it must leave no trace in the state.
        cut.score()
        cut = resume(problem, trajectory, data, cut.snapshot(), seed=seed)
    cut.advance(until, lambda step: True)
    wanted, found = whole.snapshot(), cut.snapshot()
    differing = differences(wanted, found)
    if differing:
        raise InvalidProblem(
            f"problem {getattr(problem, 'name', problem)!r:.80}: trained in one piece and in several until step "
            f"{until}, these differ: {', '.join(differing)}. Everything that training changes must be part of the "
            "model, its optimizer or what a training_loop saves, and all that is drawn must follow from the seed",
            differing=differing,
        )
    return found


def differences(one: Snapshot, other: Snapshot) -> list[str]:
    """Name the parts of two snapshots that aren't the same bits."""
    found = [name for name in sorted({*one.attached, *other.attached}) if not _same(one, other, name)]
    if (one.graph is None) != (other.graph is None) or len(one.weights) != len(other.weights):
        found.append("graph")
    pairs = zip(one.weights, other.weights, strict=False)
    found += [f"weight {number}" for number, (mine, yours) in enumerate(pairs) if not _equal(mine, yours)]
    if one.extra != other.extra:
        found.append("extra")
    return found


def _same(one: Snapshot, other: Snapshot, name: str) -> bool:
    return name in one.attached and name in other.attached and _equal(one.attached[name], other.attached[name])


def _equal(one: Any, other: Any) -> bool:
    # By bytes: NaN equals itself here, and -0.0 differs from 0.0.
    same: bool = one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return same
