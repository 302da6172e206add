"""A client that has given its scheduler up and closed itself ends a search by a named error, and the run is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import daskevo
from daskevo.errors import SchedulerUnreachable
from daskevo.runs import RunView
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.execution.progress import Progress

pytestmark = pytest.mark.processes


def test_a_client_that_gave_up(client: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    other = Client(client.scheduler.address, set_as_default=False)
    repository = daskevo.open(tmp_path / "root", "tiny", client=other, objective="max val_accuracy", shards=8)

    def give_up(progress: Progress) -> None:
        if progress.finished:
            other.close()

    def search(evaluations: int, repository: Any, on_progress: Any = None) -> nas.Result:
        return nas.search(
            tiny(),
            AgedEvolution(4, 2),
            repository=repository,
            evaluations=evaluations,
            run=tmp_path / "run",
            on_progress=on_progress,
        )

    try:
        with pytest.raises(SchedulerUnreachable, match="run the same command to go on"):
            search(100, repository, give_up)
    finally:
        other.close()
    with RunView(tmp_path / "run") as view:
        kept = {report.model_id for report in view.reports() if report.status == "finished"}
        assert kept
        assert "SchedulerUnreachable" in [event.message for event in view.events("stopped")]
    found = search(len(kept) + 1, daskevo.open(tmp_path / "root", "tiny", client=client, objective="max val_accuracy"))
    assert {report.model_id for report in found.reports if report.status == "finished"} > kept
