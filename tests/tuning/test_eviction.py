"""Which snapshots are let go, against brute force; what is needed is never let go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.tuning import (
    Configuration,
    Constant,
    Costs,
    KeptSnapshot,
    SearchPlan,
    Trajectory,
    concatenate,
    evictions,
    kept_snapshots,
    make_room,
)


@st.composite
def shelves(draw: st.DrawFn, most: int = 6) -> list[KeptSnapshot]:
    """Snapshots of a forest of trajectories, some of whose tensors are shared."""
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))
    kept: list[KeptSnapshot] = []
    for number in range(draw(st.integers(0, most))):
        tensors = draw(st.sets(st.integers(0, len(sizes) - 1)))
        kept.append(
            KeptSnapshot(
                f"s{number}",
                draw(st.sampled_from([{"cache"}, {"cache"}, {"cache"}, {"request"}, {"cache", "user"}])),
                {tensor: sizes[tensor] for tensor in tensors},
                None if not kept else draw(st.sampled_from([None, *(one.name for one in kept)])),
                float(draw(st.integers(0, 9))),
            )
        )
    return draw(st.permutations(kept))


def nbytes(kept: Collection[KeptSnapshot]) -> int:
    return sum({tensor: size for one in kept for tensor, size in one.tensors.items()}.values())


def left(kept: Sequence[KeptSnapshot], gone: Collection[str]) -> list[KeptSnapshot]:
    return [one for one in kept if one.name not in gone]


def seconds(kept: Sequence[KeptSnapshot], gone: Collection[str], name: str | None) -> float:
    """What training one again takes, from the nearest that is left before it."""
    by_name = {one.name: one for one in kept}
    total = 0.0
    while name is not None:
        total += by_name[name].seconds
        name = by_name[name].earlier
        if name is not None and name not in gone:
            break
    return total


def one_after_the_other(kept: Sequence[KeptSnapshot], quota: int) -> set[str]:
    """The same rule, everything counted anew for each that goes."""
    gone: list[str] = []
    while nbytes(left(kept, gone)) > quota:
        there = left(kept, gone)
        ranks = []
        for one in there:
            if set(one.kinds) <= {"cache"}:
                freed = nbytes(there) - nbytes([other for other in there if other is not one])
                cost = seconds(kept, gone, one.name)
                ranks.append((cost / freed if freed else inf if cost else 0.0, cost, one.name))
        if not ranks:
            return set(gone)
        gone.append(min(ranks)[2])
    for name in list(reversed(gone)):
        if nbytes(left(kept, set(gone) - {name})) <= quota:
            gone.remove(name)
    return set(gone)


def evictable(kept: Sequence[KeptSnapshot]) -> list[str]:
    return [one.name for one in kept if one.evictable]


@given(shelves(), st.integers(-1, 40))
def test_as_counted_anew_for_each_that_goes(kept: list[KeptSnapshot], quota: int) -> None:
    assert set(evictions(kept, quota)) == one_after_the_other(kept, quota)


@given(shelves(), st.integers(-1, 40))
def test_only_caches_go_no_more_than_needed_and_all_that_is_needed(kept: list[KeptSnapshot], quota: int) -> None:
    gone = evictions(kept, quota)
    assert len(set(gone)) == len(gone)
    assert set(gone) <= set(evictable(kept))
    if nbytes(left(kept, gone)) > quota:
        assert set(gone) == set(evictable(kept))
        return
    # None of them could stay.
    for name in gone:
        assert nbytes(left(kept, set(gone) - {name})) > quota


@given(shelves(), st.integers(0, 40))
def test_room_is_made_as_much_as_asked_for_or_nothing_is_lost(kept: list[KeptSnapshot], wanted: int) -> None:
    gone = make_room(kept, wanted)
    freed = nbytes(kept) - nbytes(left(kept, gone))
    assert set(gone) <= set(evictable(kept))
    most = nbytes(kept) - nbytes([one for one in kept if not one.evictable])
    assert freed >= wanted if wanted <= most else gone == ()


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(0, 8))
def test_the_least_is_lost_where_all_are_of_one_size_and_none_helps_another(costs: list[int], fit: int) -> None:
    kept = [KeptSnapshot(f"s{number}", {"cache"}, {number: 7}, None, float(cost)) for number, cost in enumerate(costs)]
    gone = evictions(kept, 7 * fit)
    lost = sum(seconds(kept, gone, name) for name in gone)
    choices = [
        choice
        for count in range(len(kept) + 1)
        for choice in combinations(evictable(kept), count)
        if nbytes(left(kept, choice)) <= 7 * fit
    ]
    assert lost == min(sum(seconds(kept, choice, name) for name in choice) for choice in choices)


def test_what_lies_before_costs_more_when_the_one_before_it_has_gone() -> None:
    def of(name: str, earlier: str | None, cost: float) -> KeptSnapshot:
        return KeptSnapshot(name, {"cache"}, {name: 10}, earlier, cost)

    kept = [of("a", None, 4), of("b", "a", 3), of("c", None, 6)]
    assert evictions(kept, 20) == ("b",)
    assert evictions(kept, 10) == ("b", "a")
    # From the beginning, b would take 5 + 2: more than c.
    assert evictions([of("a", None, 5), of("b", "a", 2), of("c", None, 6)], 10) == ("b", "a")
    assert evictions([of("a", None, 1), of("b", "a", 6), of("c", None, 6.5)], 10) == ("a", "c")


def test_a_state_that_is_stored_twice_costs_nothing_and_frees_nothing() -> None:
    first = KeptSnapshot("first", {"cache"}, {"t": 10}, None, 1.0)
    twin = KeptSnapshot("twin", {"cache"}, {"t": 10}, "first", 0.0)
    other = KeptSnapshot("other", {"cache"}, {"u": 10}, None, 0.5)
    assert evictions([first, twin, other], 10) == ("other",)
    assert set(evictions([first, twin, other], 0)) == {"first", "twin", "other"}


def test_what_others_need_frees_nothing() -> None:
    kept = [
        KeptSnapshot("a", {"cache"}, {"t": 10}, None, 1.0),
        KeptSnapshot("b", {"request"}, {"t": 10, "u": 1}, None, 1.0),
    ]
    assert evictions(kept, 5) == ("a",)
    assert evictions(kept, 11) == ()


def test_names_that_stand_twice_and_circles_are_refused() -> None:
    one = KeptSnapshot("a", {"cache"}, {}, None, 1.0)
    with pytest.raises(InvalidInput, match="same name"):
        evictions([one, one], 0)
    with pytest.raises(InvalidInput, match="circle"):
        evictions([KeptSnapshot("a", {"cache"}, {}, "b", 1.0), KeptSnapshot("b", {"cache"}, {}, "a", 1.0)], 0)


def test_snapshots_of_a_plan_cost_what_lies_between_them() -> None:
    plan = SearchPlan()
    one = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    two = Trajectory("m", Configuration({"lr": concatenate(Constant(0.1), (100, Constant(0.2)))}))
    for trajectory, step in ((one, 50), (one, 300), (two, 100), (two, 200)):
        plan.saved(plan.locate(trajectory, step), str(step))
    costs = Costs(plan)
    costs.trained(0, 10, 5.0)
    costs.trained(1, 10, 20.0)
    costs.started(7.0)
    names = ("50", "100", "200", "300")

    def kept(among: Sequence[str]) -> dict[str, tuple[str | None, float]]:
        found = kept_snapshots(plan, costs, {name: {"cache"} for name in among}, {name: {} for name in names})
        return {one.name: (one.earlier, one.seconds) for one in found}

    assert kept(names) == {"50": (None, 32.0), "100": ("50", 32.0), "200": ("100", 207.0), "300": ("100", 107.0)}
    # What is not stored any more is trained, too.
    assert kept(("50", "200", "300")) == {"50": (None, 32.0), "200": ("50", 232.0), "300": ("50", 132.0)}
    assert kept(("200",)) == {"200": (None, 257.0)}
