"""Estimate training costs: seconds per step of each node, measured when it runs, and seconds per start.

A node that has not run gets the mean of nodes that train in the same way, or its parent's, or the mean of all; before
any measurement, a given guess (paper 002, section 5.2, guesses 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from daskevo.errors import InvalidInput
from daskevo.tuning.plan import PlanNode, SearchPlan
from daskevo.tuning.stages import TrainingStage

Basis = Literal["measured", "alike", "parent", "mean", "cold"]
"""Basis of an estimate: the node, nodes with equal costly hyper-parameters, its parent, all nodes, or nothing."""

COSTLY = ("batch_size", "input_length")
"""Hyper-parameters that determine the cost of a step; nodes with equal values at their beginning count as alike."""


class Estimate(NamedTuple):
    """Seconds, and the basis of the estimate."""

    seconds: float
    basis: Basis


@dataclass(slots=True)
class _Mean:
    seconds: float = 0.0
    count: int = 0

    def add(self, seconds: float, count: int = 1) -> None:
        self.seconds += seconds
        self.count += count

    @property
    def value(self) -> float | None:
        return self.seconds / self.count if self.count else None


class Costs:
    """Measured seconds, and estimates from them.

    Parameters
    ----------
    plan:
        The plan whose nodes are estimated.
    cold_s:
        Seconds per step before any measurement.
    costly:
        Names of the sequences that determine the cost of a step.
    """

    def __init__(self, plan: SearchPlan, cold_s: float = 1.0, costly: Iterable[str] = COSTLY) -> None:
        if not cold_s > 0:
            raise InvalidInput(f"cold_s is {cold_s!r:.40}, expected seconds per step above 0")
        self.plan = plan
        self.cold_s = cold_s
        self.costly = tuple(costly)
        self._nodes: dict[int, _Mean] = {}
        self._kinds: dict[int, tuple[object, ...]] = {}
        self._alike: dict[tuple[object, ...], _Mean] = {}
        self._all = _Mean()
        self._starts = _Mean()
        self._evaluations = _Mean()

    def trained(self, node: int, steps: int, seconds: float) -> None:
        """Add the seconds of some steps of a node, without those of a start (loading, first step)."""
        # A task that only evaluated says nothing of steps.
        if steps > 0:
            # Sums of seconds and steps, so that long stages weigh more than short ones.
            means = (
                self._nodes.setdefault(node, _Mean()),
                self._alike.setdefault(self._kind(self.plan.nodes[node]), _Mean()),
                self._all,
            )
            for mean in means:
                mean.add(seconds, steps)

    def started(self, seconds: float) -> None:
        """Add the seconds of a start beyond its steps: loading the snapshot, overhead of the first step."""
        self._starts.add(seconds)

    def evaluated(self, seconds: float) -> None:
        """Add the seconds of an evaluation."""
        self._evaluations.add(seconds)

    @property
    def start_s(self) -> float:
        """Mean seconds of a start; 0 before any was measured."""
        return self._starts.value or 0.0

    @property
    def evaluation_s(self) -> float:
        """Mean seconds of an evaluation; 0 before any was measured."""
        return self._evaluations.value or 0.0

    def step_s(self, number: int) -> Estimate:
        """Estimate the seconds per step of a node.

        Examples
        --------
        >>> from daskevo.tuning import Configuration, Constant, Trajectory
        >>> plan = SearchPlan()
        >>> for size in (32, 64):
        ...     trajectory = Trajectory("m", Configuration({"batch_size": Constant(size)}))
        ...     standing = plan.request(size, trajectory, 10)
        >>> costs = Costs(plan)
        >>> costs.step_s(0)
        Estimate(seconds=1.0, basis='cold')
        >>> costs.trained(0, 10, 5.0)
        >>> costs.step_s(0), costs.step_s(1)
        (Estimate(seconds=0.5, basis='measured'), Estimate(seconds=0.5, basis='mean'))
        """
        node = self.plan.nodes[number]
        if (own := self._value(self._nodes.get(number))) is not None:
            return Estimate(own, "measured")
        if (alike := self._value(self._alike.get(self._kind(node)))) is not None:
            return Estimate(alike, "alike")
        # The nearest one above that was measured.
        while node.parent is not None:
            if (above := self._value(self._nodes.get(node.parent))) is not None:
                return Estimate(above, "parent")
            node = self.plan.nodes[node.parent]
        mean = self._all.value
        return Estimate(self.cold_s, "cold") if mean is None else Estimate(mean, "mean")

    @staticmethod
    def _value(mean: _Mean | None) -> float | None:
        return None if mean is None else mean.value

    def _kind(self, node: PlanNode) -> tuple[object, ...]:
        if node.number not in self._kinds:
            configuration = node.trajectory.configuration
            sequences = configuration.sequences
            self._kinds[node.number] = (
                node.trajectory.origin,
                configuration.header,
                *(sequences[name](node.start) for name in self.costly if name in sequences),
            )
        return self._kinds[node.number]

    def stage_s(self, stage: TrainingStage) -> float:
        """Estimate the seconds of a stage that continues on the same trainer."""
        return stage.steps * self.step_s(stage.node).seconds + (self.evaluation_s if stage.evaluate else 0.0)
