"""What is done before each write that is measured."""

from __future__ import annotations

import resource

import pytest

from benchmarks.shared import settle as settle_module
from benchmarks.shared.settle import settle


def touched() -> int:
    """Count the pages that this thread has touched: others of this process may be at work."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_free_memory_is_touched_and_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def pages(nbytes: int) -> int:
        before = touched()
        settle(nbytes)
        return touched() - before

    pages(1)
    assert pages(64 << 20) > pages(1)
    # Never more than a share of what is there.
    monkeypatch.setattr(settle_module, "_available_bytes", lambda: 1 << 12)
    assert pages(1 << 50) < 100
