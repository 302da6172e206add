"""Labels of snapshots as trials come and go: what is needed is never without one, what has no place loses it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daskevo.tuning import Configuration, SearchPlan, Trajectory, label_steps, needed_snapshots
from tests.tuning.drawn import CONFIGURATIONS

KINDS = st.sampled_from(["request", "cache", None])
"""None: another study's, which this one doesn't keep."""


@given(
    st.lists(st.tuples(CONFIGURATIONS, st.integers(1, 16), st.booleans()), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 16), KINDS, st.booleans(), st.booleans()), max_size=8),
    st.sets(st.sampled_from(["old-request", "old-cache"])),
)
def test_labels_are_those_that_are_due_after_every_step(
    asked: list[tuple[Configuration, int, bool]],
    stored: list[tuple[int, int, str | None, bool, bool]],
    out_of_place: set[str],
) -> None:
    plan = SearchPlan()
    trajectories = [Trajectory("m", configuration) for configuration, _, _ in asked]
    held = []
    for number, (trajectory, (_, step, is_held)) in enumerate(zip(trajectories, asked, strict=True)):
        if is_held:
            held.append(plan.locate(trajectory, step))
        else:
            plan.request(number, trajectory, step)
    kinds: dict[str, str] = {name: name.removeprefix("old-") for name in out_of_place}
    borrowed, in_use = set(), {"old-cache"}
    for number, step, kind, is_borrowed, is_used in stored:
        name = f"{number}-{step}"
        plan.saved(plan.locate(trajectories[number % len(trajectories)], step), name)
        if kind is not None:
            kinds[name] = kind
            borrowed.discard(name)
            if is_borrowed and kind == "request":
                borrowed.add(name)
        if is_used:
            in_use.add(name)
    there = {name for node in plan.nodes for name in node.snapshots.values()}
    needed = set(needed_snapshots(plan, held).values())
    labels = {name: {kind} for name, kind in kinds.items()}
    steps = label_steps(plan, kinds, borrowed=borrowed, held=held, in_use=in_use)  # type: ignore[arg-type]
    assert len({step.name for step in steps}) == len(steps)
    for step in steps:
        mine = labels.setdefault(step.name, set())
        if step.hold is not None:
            mine.add(step.hold)
        if step.release is not None:
            assert step.release in mine
            mine.remove(step.release)
        assert mine or step.name not in needed
    for name in there | set(kinds):
        if name in needed:
            due = {"request"}
        elif name in there:
            lent = name in borrowed or name not in kinds
            due = set() if lent else {"cache"}
        else:
            due = {kinds[name]} if name in in_use else set()
        assert labels.get(name, set()) == due
