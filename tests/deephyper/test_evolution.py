"""Aged evolution for DeepHyper by itself: forced change, conditions, clauses, no duplicates, an end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")

import ConfigSpace as cs
from deephyper.evaluator import MaximumJobsSpawnReached
from deephyper.hpo import HpProblem

from daskevo.errors import InvalidInput
from daskevo_plugins.deephyper import AgedEvolution

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def conditional() -> HpProblem:
    made = HpProblem()
    second = made.add_hyperparameter(["on", "off"], "second")
    # Named so that the child comes first in the alphabet.
    inner = made.add_hyperparameter((1, 50), "inner")
    rate = made.add_hyperparameter((1e-4, 1e-1, "log-uniform"), "rate")
    deep = made.add_hyperparameter(["x", "y"], "deep")
    made.add_condition(cs.EqualsCondition(inner, second, "on"))
    made.add_condition(cs.GreaterThanCondition(deep, inner, 10))
    made.add_forbidden_clause(
        cs.ForbiddenAndConjunction(cs.ForbiddenEqualsClause(second, "off"), cs.ForbiddenEqualsClause(rate, 1e-1))
    )
    return made


def active(problem: HpProblem, configuration: dict[str, Any]) -> dict[str, Any]:
    found = {name: configuration[name] for name in ("second", "rate")}
    if configuration["second"] == "on":
        found["inner"] = configuration["inner"]
        if configuration["inner"] > 10:
            found["deep"] = configuration["deep"]
    return found


def run(search: AgedEvolution, evaluations: int, objective: Any = lambda configuration: configuration["rate"]) -> list:
    told = []
    while len(told) < evaluations:
        (configuration,) = search.ask(1)
        told.append((configuration, objective(configuration)))
        search.tell(told[-1:])
    return told


def test_every_child_changes_one_active_hyperparameter(tmp_path: Path) -> None:
    problem = conditional()
    search = AgedEvolution(problem, random_state=0, log_dir=str(tmp_path), population_size=1, sample_size=1)
    (parent, _), *rest = run(search, 200)
    moved = set()
    for child, _ in rest:
        before, after = active(problem, parent), active(problem, child)
        changed = {name for name in before if name in after and before[name] != after[name]}
        assert len(changed) == 1
        # What became active, or ceased to be, hangs on what was changed.
        appeared = set(before) ^ set(after)
        assert not appeared or changed <= {"second", "inner"}
        moved |= changed | appeared
        # Inactive ones have one value, so that equal configurations are equal.
        assert child["deep"] in ("x", "y") if "deep" in after else child["deep"] == "x"
        cs.Configuration(problem.space, values=after)
        parent = child
    assert moved == {"second", "inner", "rate", "deep"}


def test_the_best_of_the_sample_is_the_parent_and_the_oldest_leaves(tmp_path: Path) -> None:
    problem = HpProblem()
    for name in "abcdef":
        problem.add([0, 1, 2, 3], name)
    search = AgedEvolution(problem, random_state=1, log_dir=str(tmp_path), population_size=6, sample_size=6)
    told = run(search, 60, lambda configuration: float(sum(configuration.values())))
    for number in range(6, 60):
        members = told[number - 6 : number]
        best = max(value for _, value in members)
        child = told[number][0]
        assert any(
            value == best and sum(member[name] != child[name] for name in "abcdef") == 1 for member, value in members
        )
    assert max(value for _, value in told) >= 16
    assert list(search._population) == told[-6:]


def test_failures_do_not_enter(tmp_path: Path) -> None:
    problem = HpProblem()
    problem.add((0, 1000), "a")
    search = AgedEvolution(problem, random_state=1, log_dir=str(tmp_path), population_size=3, sample_size=2)
    run(search, 5, lambda configuration: float(configuration["a"]))
    members = list(search._population)
    run(search, 5, lambda configuration: "F_some")
    assert list(search._population) == members
    with pytest.raises(InvalidInput, match="one objective"):
        run(search, 1, lambda configuration: (1.0, 2.0))


@pytest.mark.parametrize("constrained", [False, True])
def test_nothing_is_asked_twice_and_an_exhausted_space_says_so(constrained: bool, tmp_path: Path) -> None:
    problem = HpProblem()
    switch = problem.add_hyperparameter([False, True], "switch")
    width = problem.add_hyperparameter((1, 3), "width")
    problem.add_hyperparameter([0.5, 1.5], "scale")
    problem.add_condition(cs.EqualsCondition(width, switch, True))
    if constrained:
        problem.set_constraint_fn(lambda frame: frame["scale"] + frame["width"] < 4)
    search = AgedEvolution(problem, random_state=1, log_dir=str(tmp_path), population_size=2, sample_size=1)
    size = 7 if constrained else 8
    told = run(search, size, lambda configuration: 1.0)
    assert len({tuple(configuration.values()) for configuration, _ in told}) == size
    with pytest.raises(MaximumJobsSpawnReached):
        search.ask(1)
    assert search.exhausted == f"all {size} configurations that were found have been asked for: the space is exhausted"


def test_the_same_seed_asks_the_same(tmp_path: Path) -> None:
    runs = [run(AgedEvolution(conditional(), 7, str(tmp_path), population_size=3, sample_size=2), 20) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "options", [{"population_size": 2, "sample_size": 3}, {"sample_size": 0}, {"beta": 0.0}, {"beta": float("nan")}]
)
def test_sizes_that_cannot_be(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        AgedEvolution(conditional(), log_dir=str(tmp_path), **options)
