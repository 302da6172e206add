"""Which snapshots somebody needs: those from which what is waited for, or may be gone on with, would be trained.

As trials come and go, a snapshot that was kept against failures becomes one that is needed, and the other way round.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Literal, NamedTuple

from daskevo.tuning.plan import SearchPlan, State
from daskevo.tuning.stages import Promises, stage_tree

Kind = Literal["request", "cache"]
"""Of the labels that keep snapshots: needed, and never let go; or kept while there is room."""


class Change(NamedTuple):
    """A snapshot that is to be kept by a label of another kind."""

    name: str
    kind: Kind
    """The new one: its label is taken before that of the other kind is released."""


def latest_snapshot(
    plan: SearchPlan, state: State, *, before: bool = False, among: Container[str] | None = None
) -> State | None:
    """Return the last state on the way to a state that is stored; None if there is none.

    Parameters
    ----------
    before:
        Only states before that one.
    among:
        Only snapshots of these names.
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
    """Return the snapshots that somebody needs, by state.

    For each state that is waited for, that is the last one stored on the way to it: also of a training under way, which
    would begin there again if its trainer died before it has stored a later one.

    Parameters
    ----------
    held:
        States that somebody may want to go on from, or to look at: paused trials, the best ones.

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
    found = {latest_snapshot(plan, state): None for state in (*plan.wanted, *held)}
    return {state: plan.nodes[state.node].snapshots[state.step] for state in found if state is not None}


def begun_with(plan: SearchPlan, promises: Promises, held: Iterable[State] = ()) -> set[str]:
    """Return the names of the snapshots without which steps would be trained again even if no trainer fails.

    Those are what the stages that are to be given next begin with, and what is held that running work won't store. They
    are fewer than the needed ones: what running work would begin again with is none of them.
    """
    found = {stage.source for stage in stage_tree(plan, promises).stages if stage.ready}
    wanted = set(plan.wanted)
    for state in held:
        if state not in wanted and state.step not in promises.saves.get(state.node, ()):
            found.add(latest_snapshot(plan, state))
    return {plan.nodes[state.node].snapshots[state.step] for state in found if state is not None}


def changes_of_kind(plan: SearchPlan, kinds: Mapping[str, Kind], held: Iterable[State] = ()) -> list[Change]:
    """Return the snapshots whose kind changes; those that are needed from now on come first.

    Parameters
    ----------
    kinds:
        Name -> the kind of label that keeps it now, of the snapshots that are one's own to relabel.
    held:
        As :func:`needed_snapshots` takes them.
    """
    return changes_between(kinds, set(needed_snapshots(plan, held).values()))


def changes_between(kinds: Mapping[str, Kind], needed: Container[str]) -> list[Change]:
    """Return the same, given the names of the snapshots that somebody needs."""
    wanted = [Change(name, "request") for name, kind in kinds.items() if kind == "cache" and name in needed]
    return wanted + [Change(name, "cache") for name, kind in kinds.items() if kind == "request" and name not in needed]
