"""Spaces of configurations: grids as the paper writes them, conditions, and the contract of all model spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.search import Grid, Random, Strategy
from daskevo.search.requests import View
from daskevo.space import Candidate, Choose
from daskevo.testing import check_space
from daskevo.tuning import (
    ConditionalSpace,
    Configuration,
    ConfigurationSpace,
    Constant,
    Cosine,
    GridSpace,
    MultiStep,
    conditional,
    grid,
    warmup,
)
from daskevo.types import Objective


def rates(**options: Any) -> GridSpace:
    return grid(
        learning_rate=[Constant(0.1), MultiStep(0.1, (40,), 0.1), warmup(0.0, 5, Cosine(0.1, 0.0, 60))],
        batch_size=[Constant(32), MultiStep(32, (30,), 2)],
        optimizer=["sgd", "adam"],
        **options,
    )


def trials(choose: Choose) -> dict[str, Any]:
    """A conditional space: momentum where the optimizer has it."""
    optimizer = choose("optimizer", ("sgd", "adam"))
    found = {"learning_rate": choose("rate", (Constant(0.1), Cosine(0.1, 0.0, 60))), "optimizer": optimizer}
    if optimizer == "sgd":
        found["momentum"] = choose("momentum", (Constant(0.9), MultiStep(0.9, (40,), 0.5)))
    return found


def without_decay_for_adam(values: dict[str, Any]) -> bool:
    return values["optimizer"] == "sgd" or values["learning_rate"] == Constant(0.1)


def test_they_are_model_spaces() -> None:
    check_space(rates)
    check_space(lambda: rates(where=without_decay_for_adam))
    check_space(lambda: conditional(trials))


def test_a_grid_has_all_combinations() -> None:
    space = rates(unit="epoch")
    made = [space.configuration(candidate) for candidate in space.enumerate()]
    assert str(space.size) == "12"
    assert len({configuration.key(70) for configuration in made}) == 12
    assert made[0] == Configuration(
        {"learning_rate": Constant(0.1), "batch_size": Constant(32)}, {"optimizer": "sgd"}, "epoch"
    )
    assert isinstance(space, ConfigurationSpace)


def test_a_condition_sees_sequences() -> None:
    space = rates(where=without_decay_for_adam)
    assert str(space.size) == "8"
    with pytest.raises(CandidateRejected):
        space.configuration(Candidate((1, 0, 1)))


def test_conditional_hyper_parameters() -> None:
    space = conditional(trials)
    made = [space.configuration(candidate) for candidate in space.enumerate()]
    assert [sorted(configuration.sequences) for configuration in made] == [["learning_rate", "momentum"]] * 4 + [
        ["learning_rate"]
    ] * 2
    assert isinstance(space, ConfigurationSpace)
    assert space.to_json() != conditional(other_trials).to_json()


def other_trials(choose: Choose) -> dict[str, Any]:
    return {**trials(choose), "dropout": 0.1}


@pytest.mark.parametrize("strategy", [Grid(), Random()])
@pytest.mark.parametrize("space", [rates(), conditional(trials)], ids=["grid", "conditional"])
def test_every_strategy_explores_them(strategy: Strategy, space: GridSpace | ConditionalSpace) -> None:
    strategy.start(space, [Objective("max", "accuracy")], 0)
    requests = strategy.ask(View(wanted=4, next_number=0, prefix="t", asked=()))
    assert isinstance(requests, list)
    assert len({space.configuration(request.candidate).key(70) for request in requests}) == 4


def test_draws_are_made_by_the_seed() -> None:
    space = rates()
    assert space.sample(np.random.default_rng(3)) == rates().sample(np.random.default_rng(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: grid(optimizer=["sgd", "adam"]),
        lambda: grid(learning_rate=[Constant(0.1), 0.2]),
        lambda: grid(learning_rate=[Constant(0.1), Constant(0.1)]),
        lambda: grid(learning_rate=[]),
        lambda: grid(learning_rate=[Constant(0.1)], unit="batch"),  # type: ignore[arg-type]
        lambda: grid(learning_rate=Constant(0.1)),  # type: ignore[arg-type]
        lambda: grid(learning_rate=[Constant(0.1)], dropout=0.1),  # type: ignore[arg-type]
        lambda: grid(learning_rate=[Constant(0.1)], optimizer="sgd"),
        lambda: list(grid(learning_rate=[Constant(0.1)], where=lambda trial: trial["rate"] == 1).enumerate()),
        lambda: str(conditional(lambda choose: Constant(0.1)).size),  # type: ignore[arg-type, return-value]
        lambda: str(conditional(lambda choose: {"rate": choose("rate", (Constant(0.1), 0.2))}).size),
    ],
)
def test_what_is_no_space_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput):
        make()
