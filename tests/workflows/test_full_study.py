"""A study whose repository is full: what nobody needs makes room, and where there is none training goes on without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.repository import Snapshot
from daskevo.runs import RunView
from daskevo.search import Grid
from daskevo_workflows import tune

pytestmark = pytest.mark.processes

SNAPSHOT_BYTES = 50_000


def metrics(result: tune.StudyResult) -> list[Any]:
    return [report.metrics for report in sorted(result.reports, key=lambda report: report.number)]


@pytest.fixture
def limited(client: Any, tmp_path: Path) -> Callable[[float], Any]:
    """Opens a repository with room for so many snapshots."""

    def open_it(snapshots: float) -> Any:
        return daskevo.open(
            tmp_path / f"room for {snapshots}",
            "looped",
            client=client,
            objective="min loss",
            shards=8,
            quota=int(snapshots * SNAPSHOT_BYTES),
        )

    return open_it


@pytest.mark.long
def test_a_full_repository_costs_what_nobody_needs_and_then_steps(
    tuned: Callable[..., Path], limited: Callable[[float], Any], tmp_path: Path
) -> None:
    """Seven snapshots are made: where trials part after 2, 4 and 6 steps, and the four ends."""
    problem = tuned("looped.py", PADDING_BYTES=SNAPSHOT_BYTES)
    repository = limited(6.5)
    with tune.study(problem, repository=repository, run=tmp_path / "one") as study:
        result = study.run(Grid())
        expected = metrics(result)
    # What is needed at any moment has fitted.
    assert result.figures.trained_steps == 8 + 4 + 6 + 2
    with RunView(tmp_path / "one") as view:
        events = view.events()
    kinds = [event.kind for event in events]
    assert "evicted" in kinds
    assert "not stored" not in kinds
    stored = repository.snapshots()
    ends = [one for one in stored if one.step == 8]
    assert len(ends) == 4
    assert all(any(label.startswith("request:") for label in one.labels) for one in ends)
    assert repository.verify().clean
    # With hardly any room.
    repository = limited(2.5)
    ballast = Snapshot(None, (), {"ballast": np.zeros(SNAPSHOT_BYTES, np.uint8)}, {})
    kept = repository.put_snapshot(ballast, step=1, labels=["user:kept"])
    with tune.study(problem, repository=repository, run=tmp_path / "two", copy_every_s=1e-6) as study:
        result = study.run(Grid())
        assert metrics(result) == expected
    assert 8 + 4 + 6 + 2 < result.figures.trained_steps <= 4 * 8
    with RunView(tmp_path / "two") as view:
        events = view.events()
    unsaved = [event for event in events if event.kind == "not stored"]
    assert unsaved
    assert all("quota of 125000 bytes" in event.message for event in unsaved)
    assert [event.kind for event in events].count("no copies") == 1
    assert not [event for event in events if event.kind == "stage failed"]
    assert kept in {one.name for one in repository.snapshots()}
    assert repository.stats()["payload_bytes"] <= 2.5 * SNAPSHOT_BYTES
    assert repository.verify().clean
    # Opened again, it has all answers, and what is there.
    with tune.study(problem, repository=repository, run=tmp_path / "two") as study:
        again = study.run(Grid())
        assert metrics(again) == expected
        assert again.figures.trained_steps == result.figures.trained_steps
