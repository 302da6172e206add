"""What a study's data are known by, those of a training loop of one's own among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput, RunMismatch
from daskevo.runs.mismatch import check_identity
from daskevo.types import Objective
from daskevo_workflows import tune
from daskevo_workflows.problems import Data, refer
from daskevo_workflows.stage_training import data_digest


class Lazy:
    """Rows of a package that has to read them from somewhere."""

    __module__ = "h5py"
    shape = (3,)
    reads = 0

    def __array__(self, *_: Any, **__: Any) -> Any:
        Lazy.reads += 1
        return np.zeros(3)


class Rows:
    def __init__(self, number: int) -> None:
        self.number = number


class Loop:
    """A problem with a training loop of its own."""

    name, objective, epochs, batch_size = "loop", "min loss", 2, 1

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def data(self) -> Any:
        return self.rows

    def training_loop(self, *_: Any) -> Any: ...


def key_of(rows: Any) -> Any:
    reference = refer(Loop(rows))
    return tune.data_to_tune(reference, reference.load())[1]


def test_data_of_a_loop_are_known_as_all_others_are() -> None:
    assert key_of(Lazy()).unknown
    assert Lazy.reads == 0
    keys = [key_of(rows) for rows in (Rows(1), Rows(2), {"a", "b"}, {"b", "c"}, np.zeros(3), np.zeros(3, "f4"))]
    assert len({key.whole for key in keys}) == len(keys)
    assert {key.trained for key in keys} == {None}
    assert key_of(Rows(1)) == keys[0]


def test_a_study_of_an_earlier_version_goes_on() -> None:
    """It had digests of a loop's data that nobody makes any more."""
    reference = refer(Path(__file__).parents[1] / "looped.py")
    problem = reference.load()
    _, rows = tune.data_to_tune(reference, problem)
    asked = tune.identity_of(reference, tune.space_to_tune(problem), Objective.parse("min loss"), 0, rows)
    earlier = {name: part for name, part in asked["problem"].items() if name != "made"}
    check_identity(Path("run"), asked | {"problem": {**earlier, "data": "0123"}}, asked)
    others = rows._replace(whole="0123")
    other = tune.identity_of(reference, tune.space_to_tune(problem), Objective.parse("min loss"), 0, others)
    with pytest.raises(RunMismatch, match="data: "):
        check_identity(Path("run"), asked, other)


def test_masks_are_not_trained_with() -> None:
    values = np.arange(3.0)
    with pytest.raises(InvalidInput, match="masked"):
        data_digest(Data((np.ma.masked_equal(values, 1), values), (values, values)))
