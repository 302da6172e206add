"""The merge rate: how many steps a set of trials saves by training equal steps once (paper 002, chapter 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from daskevo.tuning.plan import SearchPlan
from daskevo.tuning.trajectory import Trajectory


class StepCount(NamedTuple):
    """Number of training steps of a set of trials.

    Parameters
    ----------
    total:
        If each trial were trained by itself.
    unique:
        If equal steps are trained once.
    """

    total: int
    unique: int

    @property
    def merge_rate(self) -> float:
        """Total steps divided by unique steps; 1 if there are none."""
        return self.total / self.unique if self.unique else 1.0


def count_steps(trials: Iterable[tuple[Trajectory, int]]) -> StepCount:
    """Count the steps of trials, each up to a step, before training anything.

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
    # A node is trained up to the last end of its trials, or the last beginning of its children.
    for node in plan.nodes:
        if node.parent is not None:
            ends[node.parent] = max(node.start, ends.get(node.parent, 0))
    return StepCount(total, sum(end - plan.nodes[number].start for number, end in ends.items()))
