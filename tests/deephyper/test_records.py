"""What a storage of DeepHyper's holds, and what a run function's output is taken for: pure, without a cluster."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from daskevo_plugins.deephyper.outcomes import MAX_MESSAGE, checked, failure, failure_of
from daskevo_plugins.deephyper.records import Records


@pytest.fixture
def records() -> Records:
    """Two searches, of two jobs and one."""
    made = Records()
    for search in ("a", "b"):
        assert made.apply("create_search", [search]) == search
    assert [made.apply("create_job", [search]) for search in ("a", "b", "a")] == ["a.0", "b.0", "a.1"]
    return made


def test_jobs_belong_to_searches(records: Records) -> None:
    fresh = {"status": 0, "in": None, "out": None, "metadata": {}, "intermediate": {"budget": [], "objective": []}}
    assert records.apply("searches", []) == ["a", "b"]
    assert records.apply("jobs_of", ["a"]) == ["a.0", "a.1"]
    # DeepHyper's stoppers look at the jobs of a search by number.
    assert records.apply("search", ["a"]) == {"0": fresh, "1": fresh}
    assert records.apply("jobs", [["a.1", "b.0"]]) == {"a.1": fresh, "b.0": fresh}
    records.apply("set_job", ["a.1", "status", 2])
    assert [records.apply("status", [job]) for job in ("a.0", "a.1", "b.0")] == [0, 2, 0]


def test_values_and_outputs(records: Records) -> None:
    records.apply("set_search_value", ["a", "key", 1])
    records.apply("set_search_value", ["a", "key", 2])
    assert records.apply("search_value", ["a", "key"]) == 2
    for job, note in (("a.0", None), ("a.1", 0), ("b.0", 7)):
        records.apply("set_metadata", [job, "note", note])
    assert records.apply("metadata_of_all", ["a", "note"]) == [0]
    assert records.apply("metadata_of_all", ["a", "other"]) == []
    records.apply("set_job", ["a.1", "out", 0.0])
    assert records.apply("outputs_of_all", ["a"]) == [0.0]
    assert records.apply("job", ["a.1"])["out"] == 0.0


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("apply", ["searches", []]),
        ("__init__", []),
        ("create_job", ["c"]),
        ("search_value", ["b", "key"]),
        ("job", ["a.2"]),
        ("job", ["c.0"]),
        ("set_job", ["a.2", "out", 1]),
        ("set_metadata", ["c.0", "note", 1]),
        ("jobs", [["a.0", "a.2"]]),
    ],
)
def test_what_is_unknown(operation: str, arguments: list[Any], records: Records) -> None:
    with pytest.raises(KeyError):
        records.apply(operation, arguments)
    assert records.apply("jobs_of", ["a"]) == ["a.0", "a.1"]


def objective(output: Any) -> Any:
    found = checked(output)
    assert set(found) == {"objective", "metadata"}
    return found["objective"]


def test_objectives_are_finite_numbers() -> None:
    assert objective(3) == objective(np.float32(3)) == objective({"objective": 3}) == objective({"output": 3}) == 3.0
    assert type(objective(np.int64(3))) is float
    assert objective([1, np.float64(0.5)]) == (1.0, 0.5)
    assert objective("F_mine") == "F_mine"
    assert objective("mine") == "F_mine"
    for several in ([1.0, "F"], ["F"]):
        assert objective(several) == "F_objective"
    for none in (None, True, [True], [], {}, {"objective": None}, object(), 1j, np.zeros(2)):
        assert objective(none) == "F_objective"
    for endless in (math.nan, math.inf, -math.inf, (1.0, math.nan), 10**400):
        assert objective(endless) == "F_not_finite"


def test_metadata_stay_with_failures() -> None:
    assert checked({"objective": 1, "metadata": {3: "x"}}) == {"objective": 1.0, "metadata": {"3": "x"}}
    assert checked({"objective": None, "metadata": {"kept": 1}}) == {
        "objective": "F_objective",
        "metadata": {"kept": 1, "error": "an objective is a number, or several in a tuple, not NoneType"},
    }
    assert checked({"objective": 1, "metadata": 7}) == {"objective": 1.0, "metadata": {}}
    assert "is inf" in checked(math.inf)["metadata"]["error"]


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def test_errors_are_said_in_few_words() -> None:
    assert failure("some") == {"objective": "F_some", "metadata": {}}
    assert failure_of(ValueError("why")) == {"objective": "F_ValueError", "metadata": {"error": "why"}}
    assert failure_of(Silent()) == {
        "objective": "F_Silent",
        "metadata": {"error": "(its message can't be had: RuntimeError)"},
    }
    assert len(failure_of(ValueError("x" * 9_999))["metadata"]["error"]) == MAX_MESSAGE
