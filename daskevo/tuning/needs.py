"""Find the snapshots that are needed: those from which requested or resumable training would start.

As trials come and go, a snapshot kept as a cache may become needed, and the other way round.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Literal, NamedTuple

from daskevo.tuning.plan import SearchPlan, State
from daskevo.tuning.stages import Promises, stage_tree

Kind = Literal["request", "cache"]
"""Kind of a snapshot's label: needed, and never deleted; or kept while there is room."""


class Change(NamedTuple):
    """A snapshot whose kind of label changes."""

    name: str
    kind: Kind
    """The new kind; its label is added before the old one is released."""


def latest_snapshot(
    plan: SearchPlan, state: State, *, before: bool = False, among: Container[str] | None = None
) -> State | None:
    """Return the last stored state on the way to a state; None if there is none.

    Parameters
    ----------
    before:
        Consider only states before that one.
    among:
        Consider only snapshots with these names.
    """
    for point in plan.path(state):
        steps = [
            step
            for step, name in plan.nodes[point.node].snapshots.items()
            if step <= point.step and (among is None or name in among) and not (before and (point.node, step) == state)
        ]
        if steps:
            return State(point.node, max(steps))
    return None


def needed_snapshots(plan: SearchPlan, held: Iterable[State] = ()) -> dict[State, str]:
    """Return the needed snapshots, by state.

    For each requested state this is the last stored one on the way to it, even while training is running: that training
    would restart there if its trainer died before storing a later one.

    Parameters
    ----------
    held:
        States to continue from or to look at later: paused trials, the best ones.

    Examples
    --------
    >>> from daskevo.tuning import Configuration, Constant, Trajectory
    >>> plan = SearchPlan()
    >>> trajectory = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    >>> standing = plan.request("trial", trajectory, 300)
    >>> for step in (100, 200):
    ...     plan.saved(plan.locate(trajectory, step), f"snap-{step}")
    >>> needed_snapshots(plan)
    {State(node=0, step=200): 'snap-200'}
    >>> changes_of_kind(plan, {"snap-100": "request", "snap-200": "cache"})
    [Change(name='snap-200', kind='request'), Change(name='snap-100', kind='cache')]
    """
    # A dict, which keeps the order: labels are changed in the same order in every process.
    found = {latest_snapshot(plan, state): None for state in (*plan.wanted, *held)}
    return {state: plan.nodes[state.node].snapshots[state.step] for state in found if state is not None}


def begun_with(plan: SearchPlan, promises: Promises, held: Iterable[State] = ()) -> set[str]:
    """Return the names of snapshots whose loss would cause steps to be trained again even if no trainer fails.

    These are the sources of the next stages, and held states that running tasks won't store. They are fewer than the
    needed ones, which also include states that running tasks would restart from.
    """
    found = {stage.source for stage in stage_tree(plan, promises).stages if stage.ready}
    wanted = set(plan.wanted)
    for state in held:
        # A running task stores the others, or a stage that is still to come.
        if state not in wanted and state.step not in promises.saves.get(state.node, ()):
            found.add(latest_snapshot(plan, state))
    return {plan.nodes[state.node].snapshots[state.step] for state in found if state is not None}


def changes_of_kind(plan: SearchPlan, kinds: Mapping[str, Kind], held: Iterable[State] = ()) -> list[Change]:
    """Return the snapshots whose kind changes, newly needed ones first.

    Parameters
    ----------
    kinds:
        Name -> kind of its label now, for the snapshots that this study may relabel.
    held:
        As for :func:`needed_snapshots`.
    """
    return changes_between(kinds, set(needed_snapshots(plan, held).values()))


def changes_between(kinds: Mapping[str, Kind], needed: Container[str]) -> list[Change]:
    """Return the same, given the names of the needed snapshots."""
    wanted = [Change(name, "request") for name, kind in kinds.items() if kind == "cache" and name in needed]
    return wanted + [Change(name, "cache") for name, kind in kinds.items() if kind == "request" and name not in needed]
