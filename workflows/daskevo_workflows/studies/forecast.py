"""What trials will cost before any of them is trained: exact in steps, in seconds as far as something was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskevo.tuning import Costs, SearchPlan, Trajectory, count_steps, stage_tree


@dataclass(frozen=True, slots=True)
class StudyForecast:
    """Steps and seconds of some trials.

    Parameters
    ----------
    total_steps:
        If each is trained by itself.
    unique_steps:
        If equal steps are trained once.
    steps_to_train:
        Of these, what no snapshot saves.
    total_s, seconds_to_train:
        Of all trainers together: steps, a start and a scoring of each trial, or of each path of stages that are trained
        in one go; None where no step has been measured yet.
    """

    total_steps: int
    unique_steps: int
    steps_to_train: int
    total_s: float | None
    seconds_to_train: float | None

    @property
    def merge_rate(self) -> float:
        """How many times the total is of the unique steps."""
        return self.total_steps / self.unique_steps if self.unique_steps else 1.0

    @property
    def steps_saved(self) -> int:
        return self.total_steps - self.steps_to_train

    @property
    def seconds_saved(self) -> float | None:
        if self.total_s is None or self.seconds_to_train is None:
            return None
        return self.total_s - self.seconds_to_train


def forecast(trials: Sequence[tuple[Trajectory, int]], known: SearchPlan, costs: Costs) -> StudyForecast:
    """Foretell what some trials cost, each a trajectory and its last step.

    Parameters
    ----------
    known:
        What is stored and measured; only looked at, except that nodes may be added.
    costs:
        Measured seconds, of the nodes of `known`.
    """
    total, unique = count_steps(trials)
    scratch = SearchPlan()
    for node in known.nodes:
        for step, name in node.snapshots.items():
            scratch.saved(scratch.locate(node.trajectory, step), name)
        for step, metrics in node.metrics.items():
            scratch.measured(scratch.locate(node.trajectory, step), metrics)
    for number, (trajectory, step) in enumerate(trials):
        scratch.request(number, trajectory, step)
    stages = stage_tree(scratch).stages
    steps = sum(stage.steps for stage in stages)
    if not known.nodes or costs.step_s(0).basis == "cold":
        return StudyForecast(total, unique, steps, None, None)

    def seconds(trajectory: Trajectory, start: int, stop: int) -> float:
        return (stop - start) * costs.step_s(known.locate(trajectory, stop).node).seconds

    to_train = sum(seconds(scratch.trajectory(stage.end), stage.start, stage.stop) for stage in stages)
    # A trainer goes on from stage to stage: whoever begins a path ends one.
    to_train += costs.start_s * sum(not stage.children for stage in stages)
    to_train += costs.evaluation_s * sum(stage.evaluate for stage in stages)
    # A trial by itself runs through all nodes above its own, each at its own pace.
    alone = len(trials) * (costs.start_s + costs.evaluation_s)
    for trajectory, step in trials:
        last = step
        for point in known.path(known.locate(trajectory, step)):
            start = known.nodes[point.node].start
            alone += (last - start) * costs.step_s(point.node).seconds
            last = start
    return StudyForecast(total, unique, steps, alone, to_train)
