"""Cases of a parametrization, some of them long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def with_long(values: Iterable[Any], *long: Any) -> list[Any]:
    """Return all as cases; those that are named again are long (CONTRIBUTING.md says which should be)."""
    cases = list(values)
    assert set(long) <= set(cases), f"no such cases: {set(long) - set(cases)}"
    return [pytest.param(case, marks=[pytest.mark.long] if case in long else []) for case in cases]
