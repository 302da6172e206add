"""Data of any kind are named by their content."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import data_digest
from daskevo_workflows.stage_training.content import content_digest


class Table:
    def __init__(self, rows: Any) -> None:
        self.rows = np.asarray(rows)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.rows


class Opaque:
    def __init__(self, value: int) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(4), np.arange(4, dtype=np.int32)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (np.array([0.0, np.nan]), np.array([0.0, 1.0])),
        (np.array(["a", 1], object), np.array(["b", 1], object)),
        (np.array([["a", "b"]], object), np.array([["a"], ["b"]], object)),
        (np.float32(1), np.float64(1)),
        ([1, [2]], [[1], 2]),
        ((1, 2), [1, 2]),
        ("1", 1),
        (True, 1),
        (b"a", "a"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({"a", "b"}, {"a", "c"}),
        (Data((np.zeros(2), None), (np.zeros(2), None)), Data((np.zeros(2), None), (np.ones(2), None))),
        (Table([1, 2]), Table([1, 3])),
        (Table(["x", None]), Table(["y", None])),
    ],
)
def test_what_differs_has_other_names(one: Any, other: Any) -> None:
    assert content_digest(one) != content_digest(other)
    assert content_digest([one]) != content_digest([other])
    assert content_digest(one) == content_digest(one)


def test_what_is_equal_has_the_same_name() -> None:
    assert content_digest({"a": 1, "b": 2}) == content_digest({"b": 2, "a": 1})
    assert content_digest(np.arange(8)[::2]) == content_digest(np.array([0, 2, 4, 6]))
    assert content_digest(np.zeros((0, 3))) == content_digest(np.zeros((0, 3)))
    # Of what nobody can look into, the type counts.
    assert content_digest([Opaque(1), print]) == content_digest([Opaque(2), print])
    holds_itself: list[Any] = []
    holds_itself.append(holds_itself)
    assert content_digest(holds_itself) == content_digest(holds_itself)


def test_another_process_gives_the_same_name() -> None:
    code = (
        "from daskevo_workflows.stage_training.content import content_digest; import numpy as np;"
        "print(content_digest({'x': np.arange(3), 'names': {'a', 'b', 'c'}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == content_digest({"x": np.arange(3), "names": {"a", "b", "c"}})


def test_masks_count_and_are_not_trained_with() -> None:
    values = np.arange(3.0)
    masked = [np.ma.masked_equal(values, number) for number in (1, 2)]
    assert len({content_digest(one) for one in (*masked, values)}) == 3
    with pytest.raises(InvalidInput, match="masked"):
        data_digest(Data((masked[0], values), (values, values)))
