"""The limit of an evaluation that nobody set."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo_workflows.execution.time_limits import FIRST_S, LEAST_S, EvaluationLimit, build_limit_s, check_limit


def limit(asked: Any, *seconds: float) -> float | None:
    found = EvaluationLimit(asked, lambda count, steps: list(seconds)[-count:]).now()
    return None if found is None else found[0]


def test_what_was_asked_for_holds() -> None:
    assert limit(7, 100, 100, 100) == 7
    assert limit(None, 1, 1, 1) is None


def test_otherwise_the_run_says_it() -> None:
    assert limit("auto") == limit("auto", 1, 1) == FIRST_S
    assert limit("auto", 1, 1, 1) == LEAST_S
    assert limit("auto", 100, 1, 90) == 1_800
    # Only recent ones count.
    assert limit("auto", *[1.0] * 200, *[1_000.0] * 100) == 20_000


def test_a_build_has_the_least_of_it() -> None:
    assert [build_limit_s(asked) for asked in (None, 7, "auto")] == [None, 7, LEAST_S]


@pytest.mark.parametrize("asked", [0, -1.0, "never", float("nan"), [3]])
def test_anything_else_is_refused(asked: Any) -> None:
    with pytest.raises(InvalidInput, match="evaluation_limit_s"):
        check_limit(asked)
