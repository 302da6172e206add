"""The search plan: everything known about the trainings of all studies, as a tree (paper 002, section 4.2).

A node is a trajectory from the step at which it diverges from its parent's. Adding a trial never splits a node: a
trajectory that diverges in the middle of one becomes its child from that step on. So everything stored at a node by
step (snapshots, metrics, requests, failures) stays there when trials come and go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo.tuning.step_sequence import check_steps
from daskevo.tuning.trajectory import Trajectory

Waiter = Hashable
"""Identifies a request for metrics: one trial of one study at one step, such as ``("grid", 17)``."""


class State(NamedTuple):
    """A model after `step` steps of the node's trajectory, including its ancestors' steps.

    Each state has one name: at the step where a node begins, it belongs to the parent.
    """

    node: int
    step: int


@dataclass(slots=True)
class PlanNode:
    """A trajectory from the step at which it diverges from its parent's.

    Parameters
    ----------
    number:
        Its index in `SearchPlan.nodes`.
    trajectory:
        The full trajectory; up to `start` it equals the parent's.
    parent, start:
        The parent, and the number of steps after which it diverges; None and 0 if it shares no step.
    depth:
        Number of nodes above it.
    snapshots:
        Step -> name of the stored snapshot.
    metrics:
        Step -> metrics of the model.
    requests:
        Step -> requests that wait for the metrics.
    failures:
        Step -> why this step and later ones can't be trained.
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
    """The state of a request: answered by `metrics`, failed because of `failure`, or (neither) waiting."""

    state: State
    metrics: Mapping[str, float] | None = None
    failure: str | None = None


class SearchPlan:
    """Everything asked, trained, stored and measured in any number of studies.

    It is not stored itself: it is rebuilt from the requests in the run's record and from the snapshots and metrics in
    the repository, each with its trajectory and step.

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

    # Finding states

    def locate(self, trajectory: Trajectory, step: int) -> State:
        """Return the state of a trajectory after `step` steps (from 1), adding a node if necessary.

        Raises
        ------
        InvalidInput
            If `step` is not valid, or a hyper-parameter is not finite up to it.
        """
        check_steps(step, "step", 1)
        configuration = trajectory.configuration
        # With the values at step 0: trajectories that differ there share no step, and so no node.
        root = (trajectory.origin, configuration.header, configuration.bits_at(0))
        number = self._roots.get(root)
        if number is None:
            configuration.check(step)
            number = self._roots[root] = self._grow(trajectory, None, 0, step)
        while True:
            node = self.nodes[number]
            common = configuration.common_steps(node.trajectory.configuration, step)
            if common == step:
                # Only what no earlier trial of this node has checked.
                configuration.check(step, node.checked)
                node.checked = max(node.checked, step)
                return State(number, step)
            # Follow the child with the same values where the trajectories diverge.
            place = (common, configuration.bits_at(common))
            if place not in node.children:
                # Before the node is made, so that a refused trial leaves none behind; and from where the parent was
                # checked, which may be less far than the two are equal.
                configuration.check(step, min(common, node.checked))
                node.children[place] = self._grow(trajectory, number, common, step)
            number = node.children[place]

    def _grow(self, trajectory: Trajectory, parent: int | None, start: int, checked: int) -> int:
        depth = 0 if parent is None else self.nodes[parent].depth + 1
        self.nodes.append(PlanNode(len(self.nodes), trajectory, parent, start, depth, checked=checked))
        return len(self.nodes) - 1

    def find(self, trajectory: Trajectory, step: int) -> State | None:
        """Return the state of a trajectory after `step` steps, or None if the plan doesn't have it; adds nothing."""
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
        """Yield a state, then the states at which its node and the nodes above diverge from their parents."""
        yield state
        node = self.nodes[state.node]
        while node.parent is not None:
            yield State(node.parent, node.start)
            node = self.nodes[node.parent]

    def trajectory(self, state: State) -> Trajectory:
        """Return the trajectory that leads to a state."""
        return self.nodes[state.node].trajectory

    def key(self, state: State) -> str:
        """Return the state's key, which is the same in every process (:meth:`Trajectory.key`)."""
        return self.trajectory(state).key(state.step)

    # Requests

    def request(self, waiter: Waiter, trajectory: Trajectory, step: int) -> TrialStanding:
        """Add a request for the metrics of a trajectory after `step` steps.

        Returns
        -------
        TrialStanding
            With metrics if they are known, or a failure if they can't be computed; then nothing waits.

        Raises
        ------
        InvalidInput
            If `waiter` is already waiting, or as :meth:`locate`.
        """
        if waiter in self._waiting:
            raise InvalidInput(
                f"{waiter!r:.80} waits for {self._waiting[waiter]} already: remove it, or ask as another"
            )
        state = self.locate(trajectory, step)
        node = self.nodes[state.node]
        if step in node.metrics:
            return TrialStanding(state, metrics=node.metrics[step])
        # Metrics first: a state that was measured is fine, even if one before it failed later.
        if (failure := self.failure(state)) is not None:
            return TrialStanding(state, failure=failure)
        node.requests.setdefault(step, []).append(waiter)
        self._waiting[waiter] = state
        self._wanted[state] = None
        return TrialStanding(state)

    def withdraw(self, waiter: Waiter) -> State | None:
        """Withdraw a request; return the state it waited for, or None if it doesn't wait (any more)."""
        state = self._waiting.pop(waiter, None)
        if state is not None:
            waiters = self.nodes[state.node].requests[state.step]
            waiters.remove(waiter)
            if not waiters:
                self._served(state)
        return state

    def _served(self, state: State) -> tuple[Waiter, ...]:
        """Remove all requests for a state, and return them."""
        self._wanted.pop(state, None)
        waiters = tuple(self.nodes[state.node].requests.pop(state.step, ()))
        for waiter in waiters:
            self._waiting.pop(waiter, None)
        return waiters

    @property
    def wanted(self) -> tuple[State, ...]:
        """All states with waiting requests, in the order in which they were first asked for."""
        return tuple(self._wanted)

    def waiters(self, state: State) -> tuple[Waiter, ...]:
        """Return the requests that wait for a state."""
        return tuple(self.nodes[state.node].requests.get(state.step, ()))

    # Results

    def measured(self, state: State, metrics: Mapping[str, float]) -> tuple[Waiter, ...]:
        """Store metrics; return the requests that waited for them."""
        self.nodes[state.node].metrics[state.step] = dict(metrics)
        return self._served(state)

    def saved(self, state: State, name: str) -> None:
        """Note that the repository has a snapshot of a state."""
        self.nodes[state.node].snapshots[state.step] = name

    def gone(self, state: State) -> None:
        """Note that a snapshot is gone: evicted, corrupt or lost. Steps that need it are trained again."""
        self.nodes[state.node].snapshots.pop(state.step, None)

    def failed(self, state: State, why: str, *, lasting: bool = True) -> dict[Waiter, State]:
        """Note that a state can't be trained; return the requests for it and for states beyond it.

        Parameters
        ----------
        lasting:
            Whether later requests get this failure too.
        """
        if lasting:
            self.nodes[state.node].failures[state.step] = why
        beyond = [wanted for wanted in self._wanted if self.is_beyond(wanted, state)]
        return {waiter: wanted for wanted in beyond for waiter in self._served(wanted)}

    def is_beyond(self, state: State, earlier: State) -> bool:
        """Tell whether training to a state passes through an earlier one (or is that one)."""
        return any(point.node == earlier.node and point.step >= earlier.step for point in self.path(state))

    def failure(self, state: State) -> str | None:
        """Return why a state can't be trained, if known."""
        for point in self.path(state):
            for step, why in self.nodes[point.node].failures.items():
                if step <= point.step:
                    return why
        return None
