"""Which labels of stored snapshots are given and taken as trials come and go, step by step, so that nothing needed is
ever without one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from daskevo.tuning.needs import Kind, changes_between, needed_snapshots
from daskevo.tuning.plan import SearchPlan, State


class LabelStep(NamedTuple):
    """What is done to one snapshot: a label of a kind is taken, if any, before that of another is released, if any."""

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
    """Return what is to be done to the labels of a study's snapshots; those that are needed from now on come first.

    - What is needed gets the study's ``request`` label, also where it is another study's: that one may let it go.
    - What is not needed any more becomes ``cache``; if it is another study's, the label is only released.
    - What the plan doesn't have any more, because a later copy or another snapshot of the same state has taken its
      place, loses its label, unless a work is to begin with it.

    Parameters
    ----------
    kinds:
        Name -> the kind of label by which the study keeps it now.
    borrowed:
        Those of them that another study stored.
    held:
        As :func:`daskevo.tuning.needed_snapshots` takes them.
    in_use:
        Snapshots that works begin with.

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
        if name not in stored and name not in in_use:
            steps.append(LabelStep(name, None, kind))
    return steps
