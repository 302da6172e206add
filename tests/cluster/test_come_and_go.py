"""Hundreds of puts and retirements on real processes, one of them killed: in the end nothing is left but tombstones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ten_thousand import come_and_go

STEPS = 120


@pytest.mark.long
@pytest.mark.processes
def test_what_came_and_went_leaves_nothing_but_tombstones(tmp_path: Path) -> None:
    found = come_and_go(tmp_path / "root", STEPS, 1, keep=10, at_once=8, minutes=3.0)
    left, outcomes = found["left"], found["outcomes"]
    assert found["clean"], found["differences"]
    assert outcomes["kills"] == 1
    assert outcomes["stored"] > STEPS / 2
    assert "not retired" not in outcomes
    for name in ("models", "staged", "references", "tensors", "payload_bytes", "file_bytes", "memory_bytes"):
        assert left[name] == 0, (name, left)
    assert found["live_attempts"] == left["unsettled"] == found["disk"]["segments"] == 0
    assert left["tombstones"] >= outcomes["stored"]
    assert found["disk"]["journals"] == left["journal_bytes"] < found["steps"] * 3000
    before, after = found["tables"]
    grown = {path for path, size in after.items() if size > before.get(path, 0) + STEPS / 3}
    assert grown <= {"workers: ShardState.tombstones", "workers: Tombstone.metrics"}, grown
