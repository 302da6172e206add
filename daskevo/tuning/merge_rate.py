"""What a set of trials costs when equal steps are trained once: the merge rate (paper 002, chapter 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from daskevo.tuning.plan import SearchPlan
from daskevo.tuning.trajectory import Trajectory


class StepCount(NamedTuple):
    """Training steps of a set of trials.

    Parameters
    ----------
    total:
        If each trial is trained by itself.
    unique:
        If equal steps are trained once.
    """

    total: int
    unique: int

    @property
    def merge_rate(self) -> float:
        """How many times the total is of the unique steps; 1 if there are none."""
        return self.total / self.unique if self.unique else 1.0


def count_steps(trials: Iterable[tuple[Trajectory, int]]) -> StepCount:
    """Count the steps of trials, each trained until a step, before anything is trained.

    Examples
    --------
    The paper's figure 1.1, 300 steps each: the first 100 are shared by four trials, the next by three.

    >>> from daskevo.tuning import Configuration, Constant, concatenate
    >>> rates = [
    ...     concatenate(Constant(0.1), (200, Constant(0.01))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05)), (200, Constant(0.01))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05)), (200, Constant(0.02))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05))),
    ... ]
    >>> count_steps((Trajectory("resnet", Configuration({"lr": rate})), 300) for rate in rates)
    StepCount(total=1200, unique=700)
    """
    plan = SearchPlan()
    ends: dict[int, int] = {}
    total = 0
    for trajectory, step in trials:
        state = plan.locate(trajectory, step)
        total += step
        ends[state.node] = max(step, ends.get(state.node, 0))
    # A node is trained to where the last of its trials ends, or the last of its children begins.
    for node in plan.nodes:
        if node.parent is not None:
            ends[node.parent] = max(node.start, ends.get(node.parent, 0))
    return StepCount(total, sum(end - plan.nodes[number].start for number, end in ends.items()))
