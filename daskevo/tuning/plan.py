"""The search plan: all that is known of the trainings of all studies, a tree that only grows (paper 002, section 4.2).

A node is a trajectory, from the step on at which it parts from its parent's. Adding a trial never splits a node: a
trajectory that parts in the middle of one becomes its child from there. So what is kept at a node (snapshots, metrics,
requests, failures, by step) stays where it is, whatever trials come and go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo.tuning.step_sequence import check_steps
from daskevo.tuning.trajectory import Trajectory

Waiter = Hashable
"""Who wants to know: one trial of one study at one step, such as ``("grid", 17)``."""


class State(NamedTuple):
    """A model after so many steps: those of the node's trajectory, its ancestors' steps counted in.

    The same state has one name: at the step where a node begins, it is its parent's.
    """

    node: int
    step: int


@dataclass(slots=True)
class PlanNode:
    """A trajectory from the step on at which it parts from its parent's.

    Parameters
    ----------
    number:
        Its place in `SearchPlan.nodes`.
    trajectory:
        As it goes on for ever; until `start` it is the parent's.
    parent, start:
        The node it parts from, and after how many steps; None and 0 for one that begins with no step in common.
    depth:
        How many nodes it has above it.
    snapshots:
        Step -> name of what is stored of the model then.
    metrics:
        Step -> what the model scored then.
    requests:
        Step -> who waits for the metrics there.
    failures:
        Step -> why nothing at or beyond it can be trained.
    """

    number: int
    trajectory: Trajectory
    parent: int | None
    start: int
    depth: int
    children: dict[tuple[int, bytes], int] = field(default_factory=dict)
    snapshots: dict[int, str] = field(default_factory=dict)
    metrics: dict[int, Mapping[str, float]] = field(default_factory=dict)
    requests: dict[int, list[Waiter]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    checked: int = 0


class TrialStanding(NamedTuple):
    """Where a request stands: answered by `metrics`, in vain because of `failure`, or neither: it waits."""

    state: State
    metrics: Mapping[str, float] | None = None
    failure: str | None = None


class SearchPlan:
    """What has been asked, trained, stored and measured, of any number of studies.

    Nothing of it need be stored: it is made again of the requests in the run's record, and of the snapshots and metrics
    in the repository, each with its trajectory and step.

    Examples
    --------
    The four trials of the paper's figure 1.1:

    >>> from daskevo.tuning import Configuration, Constant, MultiStep, concatenate
    >>> plan = SearchPlan()
    >>> for number, rate in enumerate([
    ...     concatenate(Constant(0.1), (200, Constant(0.01))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05)), (200, Constant(0.01))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05)), (200, Constant(0.02))),
    ...     concatenate(Constant(0.1), (100, Constant(0.05))),
    ... ]):
    ...     standing = plan.request(number, Trajectory("resnet", Configuration({"lr": rate})), 300)
    >>> [(node.number, node.parent, node.start) for node in plan.nodes]
    [(0, None, 0), (1, 0, 100), (2, 1, 200), (3, 1, 200)]
    """

    def __init__(self) -> None:
        self.nodes: list[PlanNode] = []
        self._roots: dict[tuple[str, bytes, bytes], int] = {}
        self._waiting: dict[Waiter, State] = {}
        self._wanted: dict[State, None] = {}

    # Where things are

    def locate(self, trajectory: Trajectory, step: int) -> State:
        """Return the state of a trajectory after `step` steps, from 1; its node is added if there is none.

        Raises
        ------
        InvalidInput
            If that is no step, or a hyper-parameter is no finite number until there.
        """
        check_steps(step, "step", 1)
        configuration = trajectory.configuration
        root = (trajectory.origin, configuration.header, configuration.bits_at(0))
        number = self._roots.get(root)
        if number is None:
            configuration.check(step)
            number = self._roots[root] = self._grow(trajectory, None, 0, step)
        while True:
            node = self.nodes[number]
            common = configuration.common_steps(node.trajectory.configuration, step)
            if common == step:
                configuration.check(step, node.checked)
                node.checked = max(node.checked, step)
                return State(number, step)
            place = (common, configuration.bits_at(common))
            if place not in node.children:
                configuration.check(step, common)
                node.children[place] = self._grow(trajectory, number, common, step)
            number = node.children[place]

    def _grow(self, trajectory: Trajectory, parent: int | None, start: int, checked: int) -> int:
        depth = 0 if parent is None else self.nodes[parent].depth + 1
        self.nodes.append(PlanNode(len(self.nodes), trajectory, parent, start, depth, checked=checked))
        return len(self.nodes) - 1

    def find(self, trajectory: Trajectory, step: int) -> State | None:
        """Return the state of a trajectory after `step` steps if the plan has it, adding nothing."""
        configuration = trajectory.configuration
        number = self._roots.get((trajectory.origin, configuration.header, configuration.bits_at(0)))
        while number is not None:
            node = self.nodes[number]
            common = configuration.common_steps(node.trajectory.configuration, step)
            if common == step:
                return State(number, step)
            number = node.children.get((common, configuration.bits_at(common)))
        return None

    def path(self, state: State) -> Iterator[State]:
        """Yield a state, and the states above it at which its node and those above part from their parents."""
        yield state
        node = self.nodes[state.node]
        while node.parent is not None:
            yield State(node.parent, node.start)
            node = self.nodes[node.parent]

    def trajectory(self, state: State) -> Trajectory:
        """Return the trajectory that leads to a state."""
        return self.nodes[state.node].trajectory

    def key(self, state: State) -> str:
        """Return the name of a state that is the same in every process (:meth:`Trajectory.key`)."""
        return self.trajectory(state).key(state.step)

    # Requests

    def request(self, waiter: Waiter, trajectory: Trajectory, step: int) -> TrialStanding:
        """Take in that somebody wants the metrics of a trajectory after `step` steps.

        Returns
        -------
        Standing
            With metrics if they are known, or a failure if they can't be had: then nobody waits.

        Raises
        ------
        InvalidInput
            If `waiter` waits already, or as :meth:`locate`.
        """
        if waiter in self._waiting:
            raise InvalidInput(
                f"{waiter!r:.80} waits for {self._waiting[waiter]} already: remove it, or ask as another"
            )
        state = self.locate(trajectory, step)
        node = self.nodes[state.node]
        if step in node.metrics:
            return TrialStanding(state, metrics=node.metrics[step])
        if (failure := self.failure(state)) is not None:
            return TrialStanding(state, failure=failure)
        node.requests.setdefault(step, []).append(waiter)
        self._waiting[waiter] = state
        self._wanted[state] = None
        return TrialStanding(state)

    def withdraw(self, waiter: Waiter) -> State | None:
        """Take back a request; returns where it waited, or None if it doesn't (any more)."""
        state = self._waiting.pop(waiter, None)
        if state is not None:
            waiters = self.nodes[state.node].requests[state.step]
            waiters.remove(waiter)
            if not waiters:
                self._served(state)
        return state

    def _served(self, state: State) -> tuple[Waiter, ...]:
        """Forget who waits for a state, and return them."""
        self._wanted.pop(state, None)
        waiters = tuple(self.nodes[state.node].requests.pop(state.step, ()))
        for waiter in waiters:
            self._waiting.pop(waiter, None)
        return waiters

    @property
    def wanted(self) -> tuple[State, ...]:
        """All states that somebody waits for, in the order in which they were first asked for."""
        return tuple(self._wanted)

    def waiters(self, state: State) -> tuple[Waiter, ...]:
        """Return who waits for a state."""
        return tuple(self.nodes[state.node].requests.get(state.step, ()))

    # What came of it

    def measured(self, state: State, metrics: Mapping[str, float]) -> tuple[Waiter, ...]:
        """Take in metrics; return who waited for them."""
        self.nodes[state.node].metrics[state.step] = dict(metrics)
        return self._served(state)

    def saved(self, state: State, name: str) -> None:
        """Take in that the repository has a snapshot of a state."""
        self.nodes[state.node].snapshots[state.step] = name

    def gone(self, state: State) -> None:
        """Take in that there is no such snapshot (any more): evicted, corrupt or lost. What needs it is recomputed."""
        self.nodes[state.node].snapshots.pop(state.step, None)

    def failed(self, state: State, why: str, *, lasting: bool = True) -> dict[Waiter, State]:
        """Take in that a state can't be trained; return who waited for it, or for what comes after it.

        Parameters
        ----------
        lasting:
            Later requests are answered with the failure, too.
        """
        if lasting:
            self.nodes[state.node].failures[state.step] = why
        beyond = [wanted for wanted in self._wanted if self.is_beyond(wanted, state)]
        return {waiter: wanted for wanted in beyond for waiter in self._served(wanted)}

    def is_beyond(self, state: State, earlier: State) -> bool:
        """Tell whether training to a state leads through an earlier one (or is that one)."""
        return any(point.node == earlier.node and point.step >= earlier.step for point in self.path(state))

    def failure(self, state: State) -> str | None:
        """Return why a state can't be had, if that is known."""
        for point in self.path(state):
            for step, why in self.nodes[point.node].failures.items():
                if step <= point.step:
                    return why
        return None
