"""What only some users and machines allow: tests that need it are skipped elsewhere, and fail under CI."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

CI = "DASKEVO_CI"
"""Environment variable: this is CI, where nothing that needs rights may be skipped."""


def in_ci() -> bool:
    """Tell whether this is CI."""
    return bool(os.environ.get(CI))


def not_allowed(why: str) -> NoReturn:
    """Skip the test for that reason; under CI, fail it."""
    if in_ci():
        pytest.fail(f"{why}, and {CI} is set: nothing of this may be skipped")
    pytest.skip(why)
