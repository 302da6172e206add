"""What keeps trainers from working is seen to, or said: paused for memory, busy for others, restarted by somebody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.runs import RunView
from daskevo.search import Grid, Random
from daskevo_workflows import nas, tune
from tests.workflows.waiting import wait_for_workers

pytestmark = pytest.mark.processes

TRAINERS = {"trainer-0", "trainer-1"}
PAUSE = '''

def pause_once(folder):
    """Have this process paused, as one whose memory is full; once per file in a folder."""
    import time
    from distributed import get_worker

    worker = get_worker()
    try:
        (Path(folder) / str(worker.name)).unlink()
    except FileNotFoundError:
        return
    worker.memory_manager.memory_pause_fraction = 1e-9
    while worker.status.name != "paused":
        time.sleep(0.01)

before = {part}

def {part}(*arguments):
    pause_once({folder!r})
    return before(*arguments)
'''


WAIT = """

before = score

def score(model, data):
    (Path({folder!r}) / "there").touch()
    while not (Path({folder!r}) / "go on").exists():
        time.sleep(0.05)
    return before(model, data)
"""


def pausing(problem: Path, part: str, folder: Path) -> Path:
    """Let each trainer be paused in the first evaluation, or stage, that it does."""
    folder.mkdir()
    for name in TRAINERS:
        (folder / name).touch()
    problem.write_text(problem.read_text() + PAUSE.format(part=part, folder=str(folder)))
    return problem


def events(folder: Path, *kinds: str) -> list[Any]:
    with RunView(folder) as view:
        return [event for event in view.events() if event.kind in kinds]


@pytest.mark.long
def test_a_search_goes_on_when_its_trainers_are_paused(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Each is sent another evaluation before the search hears of it: that one is moved, and the trainer restarted."""
    problem = pausing(tiny(), "score", tmp_path / "paused")
    result = nas.search(problem, Random(), repository=repository, evaluations=6, run=tmp_path / "run")
    assert [report.status for report in result.reports if report.status != "duplicate"] == ["finished"] * 6
    recycled = events(tmp_path / "run", "recycled")
    assert {event.message for event in recycled} == {f"{name} paused for its memory" for name in TRAINERS}
    wait_for_workers(client, {"provider-0", *TRAINERS})


@pytest.mark.long
def test_a_study_goes_on_when_its_trainers_are_paused(
    client: Any, repository: Any, tuned: Callable[..., Path], tmp_path: Path
) -> None:
    problem = pausing(tuned(), "score", tmp_path / "paused")
    with tune.study(problem, repository=repository, run=tmp_path / "run", seed=3) as study:
        result = study.run(Grid())
        assert {report.status for report in result.reports} == {"finished"}
    assert events(tmp_path / "run", "recycled")
    wait_for_workers(client, {"provider-0", *TRAINERS})


def hold_on(folder: str) -> None:
    """A colleague's task: stays until it is let go."""
    (Path(folder) / "there").touch()
    while not (Path(folder) / "let go").exists():
        time.sleep(0.05)


@pytest.mark.long
def test_trainers_where_others_have_something_are_not_recycled(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    from distributed import Client

    with Client(client.scheduler.address) as colleague:
        (address,) = [
            worker
            for worker, about in colleague.scheduler_info(n_workers=-1)["workers"].items()
            if about["name"] == "trainer-0"
        ]
        array = colleague.scatter(np.arange(10), workers=[address], hash=False)
        result = nas.search(
            tiny(), Random(), repository=repository, evaluations=3, run=tmp_path / "run", recycle_after=1
        )
        assert result.stop[0] == "finished"
        (kept,) = events(tmp_path / "run", "not recycled")
        assert "trainer-0 after" in kept.message
        assert "others have 0 tasks and 1 result there" in kept.message
        assert {event.facts["worker"] for event in events(tmp_path / "run", "recycled")} <= {"trainer-1"}
        wait_for_workers(client, {"provider-0", *TRAINERS})
        assert colleague.gather(array).sum() == 45


def restart_once(client: Any, marks: Path) -> threading.Thread:
    """Restart the cluster, as a colleague may, as soon as something is under way, which waits until that is done."""
    from distributed import Client

    def restart() -> None:
        while not any(marks.iterdir()):
            time.sleep(0.02)
        with Client(client.scheduler.address) as colleague:
            colleague.restart()
        (marks / "go on").touch()

    thread = threading.Thread(target=restart)
    thread.start()
    return thread


@pytest.mark.long
def test_evaluations_are_done_again_after_a_restart_of_the_cluster(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(MARKS=str(marks), SECOND=(3, 6), FAULTS={3: "hang at first", 6: "hang at first"})
    thread = restart_once(client, marks)

    result = nas.search(problem, Random(), repository=repository, evaluations=3, run=tmp_path / "run")
    thread.join()
    assert [report for report in result.reports if report.status == "failed"] == []
    assert any("client.restart()" in event.message for event in events(tmp_path / "run", "again"))
    wait_for_workers(client, {"provider-0", *TRAINERS})


@pytest.mark.long
def test_stages_are_done_again_after_a_restart_of_the_cluster(
    client: Any, repository: Any, tuned: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tuned()
    problem.write_text(problem.read_text() + WAIT.format(folder=str(marks)))
    thread = restart_once(client, marks)
    with tune.study(problem, repository=repository, run=tmp_path / "run", seed=3) as study:
        result = study.run(Grid())
        assert {report.status for report in result.reports} == {"finished"}
    thread.join()
    failed = [event.message for event in events(tmp_path / "run", "stage failed")]
    assert any("client.restart()" in message for message in failed)
    wait_for_workers(client, {"provider-0", *TRAINERS})
