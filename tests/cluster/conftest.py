"""Fixtures of the tests with in-process clusters."""

from __future__ import annotations

import pytest

from daskevo.client import verify


@pytest.fixture
def looks_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `verify` say within a moment what is different: nothing is under way that could make it right."""
    monkeypatch.setattr(verify, "_FIRST_PAUSE_S", 0.001)
