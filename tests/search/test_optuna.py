"""Optuna's samplers behind the Protocol."""

from __future__ import annotations

import logging
from importlib.util import find_spec

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import Optuna
from daskevo.space import Choice, Space
from daskevo.testing.strategies import TINY, StrategyRun, check_strategy
from daskevo.types import Objective

pytest.importorskip("optuna")
SAMPLERS = ["tpe", *(["gp"] if find_spec("torch") else [])]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_contract(sampler: str) -> None:
    # Asking for all, Gaussian processes take four minutes.
    startup = 20 if sampler == "gp" else 5
    check_strategy(lambda: Optuna(sampler, startup=startup, keep=4))  # type: ignore[arg-type]


def test_a_small_space_is_walked_to_its_end() -> None:
    run = StrategyRun(Optuna(startup=5), TINY)
    run.go(100)
    assert len(run.requests) == len(run.asked) == TINY.size.count
    assert run.stop is not None


def test_the_optimum_is_found_where_chance_does_not() -> None:
    """Within one step of the best of 6561 candidates, in 40 draws."""
    space = Space("separable", tuple(Choice(f"c{number}", tuple(range(9))) for number in range(4)))
    found = 0
    for seed in range(6):
        run = StrategyRun(Optuna(startup=10), space, seed=seed)
        run.go(40, lambda candidate: -float(sum((value - 3) ** 2 for value in candidate.values)))
        best = max(report.quality or -1e9 for _, report in run.told)
        found += best >= -1.0
    assert found >= 3  # 9 of 6561 candidates are that good: by chance one run in 18 meets one


def test_several_objectives_are_passed_on() -> None:
    run = StrategyRun(Optuna(startup=4), objectives=(Objective.parse("max q"), Objective.parse("min used")))
    for _ in range(12):
        (request,) = run.ask()
        values = request.candidate.values
        run.tell(request, float(sum(values)), used=float(sum(value != 0 for value in values)))
    assert len(run.asked) == 12


def test_options_in_order_are_told_as_numbers_and_the_same_name_may_have_others() -> None:
    from daskevo.search.optuna_search import _distribution, _name

    ordered, mixed = Choice("units", (8, 16, 32)), Choice("units", (8, 32, 16))
    assert _distribution(ordered).high == 2
    assert _distribution(mixed).choices == (0, 1, 2)
    assert len({_name(ordered), _name(mixed), _name(Choice("units", (8, 16)))}) == 3


def test_optuna_says_nothing_and_its_settings_stay(capfd: pytest.CaptureFixture[str]) -> None:
    import optuna

    before = optuna.logging.get_verbosity()
    StrategyRun(Optuna()).go(3)
    assert optuna.logging.get_verbosity() == before
    assert logging.getLogger("optuna").level == before
    assert capfd.readouterr() == ("", "")


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", lambda name: None if name == "torch" else object())
    Optuna("tpe")
    with pytest.raises(InvalidInput, match="pip install torch"):
        Optuna("gp")
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match="pip install optuna"):
        Optuna()


@pytest.mark.parametrize("settings", [{"sampler": "cmaes"}, {"startup": 0}, {"keep": 0}])
def test_impossible_settings(settings: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        Optuna(**settings)  # type: ignore[arg-type]
