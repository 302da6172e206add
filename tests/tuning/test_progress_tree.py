"""Trees of progress and their layout: every step once, as far as it is, and no row in another's way."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning import Configuration, Constant, Scheduler, SearchPlan, Trajectory, concatenate
from daskevo.tuning.progress_tree import Asked, ProgressTree, progress_tree, states_under_way
from daskevo.tuning.tree_layout import Row, TreeLayout, tree_layout
from daskevo_plugins.dashboard.stage_tree import tree_svg
from tests.tuning.drawn import CONFIGURATIONS, prefix

CAME = st.sampled_from(["waiting", "waiting", "done", "failed", "given up"])
TRIALS = st.lists(st.tuples(CONFIGURATIONS, st.integers(1, 12), CAME), max_size=12).map(
    lambda several: [
        Asked(f"trial-{number}", Trajectory("m", configuration), step, came)  # type: ignore[arg-type]
        for number, (configuration, step, came) in enumerate(several)
    ]
)


def rate(*values: float, every: int = 4) -> Trajectory:
    """A trajectory whose learning rate takes another value every so many steps."""
    parts = [(every * place, Constant(value)) for place, value in enumerate(values)]
    return Trajectory("m", Configuration({"lr": concatenate(Constant(values[0]), *parts[1:])}))


def by_brute_force(
    asked: list[Asked], reached: list[tuple[Trajectory, int]], running: list[tuple[Trajectory, int]]
) -> Counter[str]:
    """Count steps by writing out the beginning of each."""

    def beginnings(some: list[tuple[Trajectory, int]]) -> set[object]:
        return {prefix(trajectory, count) for trajectory, step in some for count in range(1, step + 1)}

    def of(came: str) -> set[object]:
        return beginnings([(each.trajectory, each.step) for each in asked if each.came == came])

    known = beginnings(reached) | of("done")
    busy = beginnings(running) - known
    done = known & (of("waiting") | of("done") | of("failed") | of("given up"))
    going = busy & (of("waiting") | of("failed") | of("given up"))
    waiting = of("waiting") - known - busy
    failed = of("failed") - known - busy - waiting
    return Counter(done=len(done), running=len(going), waiting=len(waiting), failed=len(failed))


@settings(max_examples=40)
@given(asked=TRIALS, data=st.data())
def test_each_step_is_shown_once_as_far_as_it_is(asked: list[Asked], data: st.DataObject) -> None:
    pairs = [(each.trajectory, each.step) for each in asked]
    some = st.lists(st.sampled_from(pairs), max_size=3) if pairs else st.just([])
    reached = [(trajectory, data.draw(st.integers(1, step))) for trajectory, step in data.draw(some)]
    running = data.draw(some)
    plan = SearchPlan()
    tree = progress_tree(
        plan,
        asked,
        reached=[plan.locate(*each) for each in reached],
        running={plan.locate(*each): "gpu" for each in running},
    )
    assert +Counter(tree.steps()) == +by_brute_force(asked, reached, running)
    for branch in tree.branches:
        assert [span.start for span in branch.spans] == [branch.start, *(span.stop for span in branch.spans[:-1])]
        assert branch.spans[-1].stop == branch.stop
        if branch.parent is not None:
            above = tree.branches[branch.parent]
            assert above.start < branch.start <= above.stop
            assert branch.changes
    # Who needs a step: those whose beginning it is.
    for branch in tree.branches:
        for span in branch.spans:
            if span.progress == "waiting":
                assert all(name in {each.trial for each in asked if each.step >= span.stop} for name in span.trials)
                assert span.trials
    check_layout(tree)


def check_layout(tree: ProgressTree, most: int = 5) -> None:
    for layout in (tree_layout(tree), tree_layout(tree, most)):
        rows = layout.rows
        assert sum(row.branches for row in rows) == len(tree.branches)
        for number, row in enumerate(rows):
            if row.parent is not None:
                above = rows[row.parent]
                assert row.parent < number
                assert above.start < row.start <= above.stop
                # The line down from the parent meets no row that has begun.
                assert all(rows[between].start >= row.start for between in range(row.parent + 1, number))
            for one, following in pairwise(row.spans):
                assert one.stop <= following.start
            assert len(row.needed) == len(row.spans)
        read = TreeLayout.from_json(json.loads(json.dumps(layout.to_json())))
        assert read == layout
        assert ElementTree.fromstring(tree_svg(layout)) is not None
    assert len(tree_layout(tree, most).rows) <= most


def test_who_needs_what_and_what_came_of_it() -> None:
    plan = SearchPlan()
    one, two = rate(0.1, 0.1, 0.1), rate(0.1, 0.01, 0.01)
    asked = [
        Asked("a", one, 12, "done", 0.5),
        Asked("b", one, 12, "done", 0.5, best=True),
        Asked("c", two, 8),
        Asked("d", two, 12, "failed"),
    ]
    plan.locate(one, 12)
    running = {plan.locate(two, 8): "gpu-1"}
    trunk, branch = progress_tree(plan, asked, reached=[plan.locate(two, 6)], running=running).branches
    assert [span.trials for span in trunk.spans] == [("a", "b", "c", "d"), ("a", "b")]
    assert [(goal.step, goal.trials, goal.quality, goal.best) for goal in trunk.goals] == [(12, ("a", "b"), 0.5, True)]
    assert [(span.start, span.stop, span.progress, span.trials, span.trainer) for span in branch.spans] == [
        (4, 6, "done", ("c", "d"), None),
        (6, 8, "running", ("c", "d"), "gpu-1"),
        (8, 12, "failed", ("d",), None),
    ]
    assert [(goal.step, goal.progress) for goal in branch.goals] == [(8, "running"), (12, "failed")]
    assert branch.changes == {"lr": (0.01, 0.01)}


def test_the_words_of_branches_are_what_sets_them_apart() -> None:
    def trial(optimizer: str, *rates: float) -> Asked:
        configuration = rate(*rates).configuration
        made = Configuration({**configuration.sequences, "m": Constant(0.9)}, {"optimizer": optimizer})
        return Asked(f"{optimizer}{rates}", Trajectory("m", made), 12)

    tree = progress_tree(SearchPlan(), [trial("sgd", 0.1, 0.05), trial("adam", 0.1), trial("sgd", 0.1, 0.1, 0.2)])
    assert [row.words for row in tree_layout(tree).rows] == [
        "optimizer sgd, lr 0.1 → 0.05",
        "lr 0.1 → 0.2",
        "optimizer adam, lr 0.1",
    ]


def test_what_a_scheduler_does_is_seen() -> None:
    scheduler = Scheduler()
    one = rate(0.1, 0.1, 0.1)
    scheduler.trainer("gpu-0")
    scheduler.add("a", one, 12)
    (run,) = scheduler.decide()
    scheduler.progress(run.work, 5)
    reached, running = states_under_way(scheduler.under_way)
    (branch,) = progress_tree(scheduler.plan, [Asked("a", one, 12)], reached=reached, running=running).branches
    assert [(span.stop, span.progress, span.trainer) for span in branch.spans] == [
        (5, "done", None),
        (12, "running", "gpu-0"),
    ]


def test_hundreds_of_trials_fold_and_the_best_stays_in_sight() -> None:
    rates = [
        rate(0.1, 0.1 / (1 + first), 0.1 / (1 + first) / (1 + second)) for first in range(20) for second in range(20)
    ]
    asked = [
        Asked(f"trial-{number}", each, 12, "done" if number == 321 else "waiting", 0.9, best=number == 321)
        for number, each in enumerate(rates)
    ]
    layout = tree_layout(progress_tree(SearchPlan(), asked))
    assert 50 < len(layout.rows) <= 60
    assert any(goal.best for row in layout.rows for goal in row.goals)
    folded = [row for row in layout.rows if row.branches > 1]
    assert folded
    assert all("waiting" in row.words for row in folded)
    assert len(tree_svg(layout)) < 100_000
    assert len(json.dumps(layout.to_json())) < 40_000


def named(*trials: str, words: str = "lr 0.1") -> Row:
    plan = SearchPlan()
    asked = [Asked(trial, rate(0.1), 4) for trial in trials]
    (row,) = tree_layout(progress_tree(plan, asked)).rows
    return Row(row.parent, row.start, row.stop, row.spans, row.goals, row.needed, words, row.trials)


def test_no_name_becomes_markup() -> None:
    attack = '<script>alert(1)</script>"\u202e\x00'
    text = tree_svg(TreeLayout((named(attack, words=attack),), 4, attack), title=attack, quality=attack)
    assert "<script" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "alert(1)" in "".join(ElementTree.fromstring(text).itertext())


@pytest.mark.parametrize(
    "change",
    [
        {"stop": -1},
        {"rows": [{}]},
        {"rows": "no"},
        {"rows": None},
        {"parent": 0},
        {"spans": [[0, 4, "lost", [], None]]},
        {"spans": [[0, "4", "done", [], None]]},
    ],
)
def test_hostile_data_are_no_layout(change: dict[str, object]) -> None:
    value = TreeLayout((named("a"),), 4, "epoch").to_json()
    TreeLayout.from_json(value)
    for name, wrong in change.items():
        (value if name in value else value["rows"][0])[name] = wrong
    with pytest.raises(CorruptRecord):
        TreeLayout.from_json(value)


def test_rows_are_at_least_one() -> None:
    with pytest.raises(InvalidInput):
        tree_layout(ProgressTree(()), 0)
    assert tree_layout(ProgressTree(())).rows == ()
