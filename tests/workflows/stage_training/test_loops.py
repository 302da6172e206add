"""A training loop without Keras, driven like any other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.tuning import Constant, Linear, MultiStep
from daskevo_workflows.stage_training import TrainingLoop, begin, check, check_exact, resume
from tests.workflows.stage_training.problems import always, trajectory


class Descent:
    """Walks down a noisy bowl."""

    def __init__(self, constants: Any, start: float, seed: int) -> None:
        self.constants, self.told = constants, []
        self.rate = self.noise = 0.0
        self.state = {"x": np.array(start), "random": np.array([seed, 0], np.uint64)}

    def setup(self, values: Any, changed: Any) -> None:
        self.told.append((dict(values), set(changed)))
        if "noise" in changed and values["noise"] < 0:
            raise InvalidInput("noise is below zero")
        self.rate, self.noise = values["learning_rate"], values["noise"]

    def train(self, steps: int) -> None:
        for _ in range(steps):
            drawn = np.random.default_rng(self.state["random"]).standard_normal()
            self.state["random"] = self.state["random"] + np.array([0, 1], np.uint64)
            self.state["x"] = self.state["x"] - self.rate * (2 * self.state["x"] + self.noise * drawn)

    def evaluate(self) -> dict[str, float]:
        return {"loss": float(self.state["x"] ** 2)}

    def save(self) -> dict[str, Any]:
        return self.state

    def load(self, arrays: Any) -> None:
        self.state = dict(arrays)


def loop_problem(kind: Any = Descent) -> Any:
    return SimpleNamespace(name="bowl", training_loop=kind)


ALONG = trajectory(constants={"kind": "bowl"}, learning_rate=MultiStep(0.1, (3,), 0.5), noise=Constant(0.2))


def test_exact() -> None:
    assert isinstance(Descent({}, 1.0, 0), TrainingLoop)
    end = check_exact(loop_problem(), ALONG, 3.0, until=6, cuts=[0, 2, 3, 5])
    assert end.graph is None
    assert set(end.attached) == {"loop/x", "loop/random"}


def test_told_only_what_changes() -> None:
    made: list[Descent] = []

    def making(*arguments: Any) -> Descent:
        made.append(Descent(*arguments))
        return made[-1]

    training = begin(loop_problem(making), ALONG, 3.0, seed=1)
    training.advance(2, always)
    kept = training.snapshot()
    training.advance(6, always)
    both = {"learning_rate", "noise"}
    assert [changed for _, changed in made[0].told] == [both, {"learning_rate"}]
    assert made[0].told[1][0] == {"learning_rate": 0.05, "noise": 0.2}
    assert made[0].constants == {"kind": "bowl"}
    end = training.snapshot().attached["loop/x"]
    training.go_to(ALONG, kept)
    assert training.advance(6, lambda step: step < 4) == 4
    assert made[0].told[2] == ({"learning_rate": 0.1, "noise": 0.2}, both)
    training.advance(6, always)
    assert training.snapshot().attached["loop/x"].tobytes() == end.tobytes()
    assert training.score() == {"loss": float(end**2)}


def test_refused() -> None:
    with pytest.raises(InvalidProblem, match="has not all of setup, train, evaluate, save and load"):
        begin(loop_problem(lambda *arguments: object()), ALONG, 3.0, seed=0)
    below = trajectory(learning_rate=Constant(0.1), noise=Linear(1.0, -1.0, 4))
    training = begin(loop_problem(), below, 3.0, seed=0)
    with pytest.raises(InvalidInput, match="below zero"):
        training.advance(9, always)
    kept = begin(loop_problem(), ALONG, 3.0, seed=0).snapshot()
    with pytest.raises(InvalidInput, match="another seed"):
        resume(loop_problem(), ALONG, 3.0, kept, seed=1)
    with pytest.raises(InvalidInput, match="isn't the same"):
        training.follow(ALONG)
    check(loop_problem(), ALONG.configuration)


def test_a_loop_that_forgets_something() -> None:
    class Forgetful(Descent):
        def save(self) -> dict[str, Any]:
            return {"x": self.state["x"]}

        def load(self, arrays: Any) -> None:
            self.state["x"] = arrays["x"]

    with pytest.raises(InvalidProblem, match="these differ: loop/x"):
        check_exact(loop_problem(Forgetful), ALONG, 3.0, until=4, cuts=[2])
