"""Plan changes of snapshot labels as trials come and go, ordered so that no snapshot in use is ever without a label."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from daskevo.tuning.needs import Kind, changes_between, needed_snapshots
from daskevo.tuning.plan import SearchPlan, State


class LabelStep(NamedTuple):
    """One change of a snapshot's labels: first add one kind of label, if any, then release another, if any."""

    name: str
    hold: Kind | None
    release: Kind | None


def label_steps(
    plan: SearchPlan,
    kinds: Mapping[str, Kind],
    *,
    borrowed: Collection[str] = (),
    held: Iterable[State] = (),
    in_use: Collection[str] = (),
) -> list[LabelStep]:
    """Return the label changes of a study's snapshots, those of newly needed ones first.

    - A needed snapshot gets the study's ``request`` label, even if another study stored it, which may release its own.
    - A snapshot no longer needed becomes ``cache``; if another study stored it, the label is only released.
    - A snapshot that the plan no longer has, because a later copy or another snapshot of the same state replaced it,
      loses its label, unless a task is about to start from it.

    Parameters
    ----------
    kinds:
        Name -> kind of the study's label on it now.
    borrowed:
        Those of them that another study stored.
    held:
        As for :func:`daskevo.tuning.needed_snapshots`.
    in_use:
        Snapshots that tasks start from.

    Examples
    --------
    >>> from daskevo.tuning import Configuration, Constant, Trajectory
    >>> plan = SearchPlan()
    >>> trajectory = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    >>> standing = plan.request("trial", trajectory, 300)
    >>> for step in (100, 200):
    ...     plan.saved(plan.locate(trajectory, step), f"snap-{step}")
    >>> for step in label_steps(plan, {"snap-100": "request", "snap-50": "cache"}):
    ...     print(*step)
    snap-200 request None
    snap-100 cache request
    snap-50 None cache
    """
    needed = dict.fromkeys(needed_snapshots(plan, held).values())
    stored = {name for node in plan.nodes for name in node.snapshots.values()}
    own = {name: kind for name, kind in kinds.items() if name in stored}
    steps = [LabelStep(name, "request", None) for name in needed if name not in kinds]
    for change in changes_between(own, needed):
        if change.kind == "request":
            steps.append(LabelStep(change.name, "request", "cache"))
        else:
            steps.append(LabelStep(change.name, None if change.name in borrowed else "cache", "request"))
    for name, kind in kinds.items():
        # One in use is released by a later call, when its task has loaded it.
        if name not in stored and name not in in_use:
            steps.append(LabelStep(name, None, kind))
    return steps
