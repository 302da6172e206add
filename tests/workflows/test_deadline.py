"""Searches whose process must be done at some moment: what they begin, wait for, and leave to the next one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import pytest

import daskevo
from daskevo.deploy.roles import ENDS
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import InvalidInput
from daskevo.runs import RunView
from daskevo.search import AgedEvolution, Grid
from daskevo.tuning import Constant, grid
from daskevo_workflows import nas, tune
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.run_deadline import Closing
from tests.waiting import wait_until
from tests.workflows.gate import Gate

pytestmark = pytest.mark.processes

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6)}
SLOW = {**WIDE, "FAULTS": {3: "slow", 6: "slow"}}


def search(problem: Path, repository: Any, folder: Path, evaluations: int, **options: Any) -> nas.Result:
    strategy = AgedEvolution(4, 2)
    return nas.search(problem, strategy, repository=repository, evaluations=evaluations, run=folder / "run", **options)


class After:
    """Deadlines that hold once so many evaluations have finished."""

    def __init__(self, finished: int, left_s: float) -> None:
        self.finished, self.left_s = finished, left_s
        self.at: float | None = None

    def see(self, progress: Progress) -> None:
        if progress.finished >= self.finished and self.at is None:
            self.at = time.time() + self.left_s

    def __call__(self) -> float | None:
        return self.at


def test_what_runs_is_waited_for_and_nothing_more_is_begun(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Closing, "expected_s", lambda self: 3600.0)
    problem, after = tiny(**SLOW), After(3, 1800.0)
    result = search(problem, repository, tmp_path, 6, deadline=after, on_progress=after.see)
    assert result.stop[0] == "walltime"
    with RunView(result.folder) as view:
        submitted = [unit for unit in view.units() if unit.kind == "evaluate" and unit.worker is not None]
        assert {unit.state for unit in submitted} == {"done"}
        begun = len(submitted)
        assert view.sessions()[-1].ended == "walltime"
    # Two trainers: what was on its way when the third was reported, and its trainer's next.
    assert begun == result.summary()["evaluations"]
    assert 3 <= begun <= 5

    monkeypatch.undo()
    again = search(problem, repository, tmp_path, 6, deadline=time.time() + 3600)
    assert again.stop == ("finished", "6 evaluations finished")
    assert Counter(report.status for report in again.reports)["finished"] == 6
    assert repository.verify().clean


@pytest.mark.long
def test_when_time_is_over_the_rest_is_pending(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    # Two finish, and the others are on their way for as long as it takes.
    gate = Gate(tmp_path / "gate", 2)
    problem, after = tiny(**WIDE, GATE=str(gate.folder)), After(2, 5.0)
    with dask.config.set({"daskevo.batch.grace": "5s"}):
        result = search(problem, repository, tmp_path, 12, deadline=after, on_progress=after.see)
    assert result.stop[0] == "walltime"
    assert "on their way" in result.stop[1]
    assert result.summary()["evaluations"] == 2
    with RunView(result.folder) as view:
        assert len(view.requests()) > len(view.reports())
        assert "to be taken up again" in result.report().read_text()

    gate.let(1000)
    again = search(problem, repository, tmp_path, 12)
    assert again.stop == ("finished", "12 evaluations finished")
    assert repository.verify().clean


def test_a_deadline_that_is_past_begins_nothing(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    result = search(tiny(), repository, tmp_path, 4, deadline=time.time() - 1)
    assert result.stop[0] == "walltime"
    assert not result.summary()["evaluations"]
    with RunView(result.folder) as view:
        assert not [unit for unit in view.units() if unit.worker is not None]


def test_a_deadline_that_is_none(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="seconds since the epoch"):
        search(tiny(), repository, tmp_path, 4, deadline="08:00")
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_trainer_that_leaves_soon_is_given_nothing(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    leaving, staying = "trainer-0", "trainer-1"

    def say(ends: float | None) -> None:
        client.run(set_end, ends, workers=[address_of(client, leaving)])
        wait_until(lambda: ends_of(client, leaving) == ends)

    say(time.time() + 4)
    try:
        result = search(tiny(), repository, tmp_path, 4)
    finally:
        say(None)
    assert {report.worker for report in result.reports if report.worker} == {staying}


def set_end(ends: float | None, dask_worker: Any) -> None:
    dask_worker.metrics[ENDS] = lambda worker: ends


def address_of(client: Any, name: str) -> str:
    return next(address for address, worker in workers_of(client).items() if worker["name"] == name)


def ends_of(client: Any, name: str) -> Any:
    return next(worker["metrics"].get(ENDS) for worker in workers_of(client).values() if worker["name"] == name)


def test_what_a_study_trains_is_kept_and_gone_on_with(client: Any, tuned: Callable[..., Path], tmp_path: Path) -> None:
    repository = daskevo.open(tmp_path / "root", "looped", client=client, objective="min loss", shards=8)
    marks = tmp_path / "marks"
    marks.mkdir()
    # Slow enough that none comes to its end before its time is over.
    problem = tuned("looped.py", epochs=60, SLEEP_S=0.5, MARKS=str(marks))
    # Two trials that never part: nothing is stored before their ends, but copies.
    space = grid(learning_rate=[Constant(0.1), Constant(0.05)], unit="epoch")
    steps, looks = marks / "steps", []

    def deadline() -> float | None:
        """Once both train, and the study has had the time to hear of it."""
        text = steps.read_text() if steps.exists() else ""
        if all(text.count(f"[{rate}, ") > 1 for rate in (0.1, 0.05)):
            looks.append(text)
        return time.time() + 60 if len(looks) > 2 else None

    with dask.config.set({"daskevo.batch.grace": "60s"}):
        with tune.study(problem, space, repository=repository, run=tmp_path / "run", seed=3) as study:
            result = study.run(Grid(), deadline=deadline)
        assert result.stop[0] == "walltime"
        assert not result.reports
    kept = {snapshot.step for snapshot in repository.snapshots()}
    assert kept
    assert max(kept) < 60
    (marks / "hurry").touch()

    with tune.study(problem, space, repository=repository, run=tmp_path / "run", seed=3) as study:
        result = study.run(Grid())
    assert result.stop[0] == "exhausted"
    assert len(result.reports) == 2
    with RunView(tmp_path / "run") as view:
        first, second = view.sessions()
        copies = view.events("copy")
        starts = [event.facts["start"] for event in view.events("stage") if event.time > second.opened]  # type: ignore[index,call-overload]
    assert (first.ended, second.ended) == ("closed", "closed")
    assert {event.facts["step"] for event in copies if event.time < second.opened} == kept  # type: ignore[index,call-overload]
    # None began at its first step.
    assert min(starts) == min(kept)
    assert repository.verify().clean
