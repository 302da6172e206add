"""An evaluation that hangs is ended and counted, whatever it hangs in, and its trainer is of use again afterwards."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import daskevo
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import NoTrainer, RunFailed
from daskevo.runs import RunView
from daskevo.search import Grid, Random
from daskevo_workflows import nas, tune
from daskevo_workflows.execution import executor, trainer_tasks
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.trainer_upkeep import NO_TRAINER_S, Upkeep
from daskevo_workflows.execution.trainers import SILENT_S, Trainer, Trainers
from daskevo_workflows.studies import study as study_module
from tests.waiting import wait_until
from tests.workflows.waiting import wait_for_workers

pytestmark = pytest.mark.processes


def failures(folder: Path) -> list[str]:
    with RunView(folder) as view:
        return [report.failure.kind for report in view.reports() if report.failure is not None]


def take_a_task_each(client: Any) -> None:
    """See that trainers do what claims their slots."""
    for name in ("trainer-0", "trainer-1"):
        slot = {"workers": [name], "resources": {"evaluation": 1}}
        assert client.submit(abs, -1, **slot, pure=False).result(timeout=120) == 1


@pytest.mark.long
def test_deaf_in_c_or_in_a_put(client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = {9: "deaf", 12: "hang in C", 15: "hang in put"}
    problem = tiny(FIRST=(4,), ACTIVATION=("relu",), SECOND=tuple(faults), FAULTS=faults, MARKS=str(marks))
    with pytest.raises(RunFailed):
        nas.search(problem, Random(), repository=repository, evaluations=3, run=tmp_path / "run", evaluation_limit_s=10)
    assert failures(tmp_path / "run") == ["time limit"] * 3
    assert sorted(mark.read_text() for mark in marks.iterdir()) == ["4 12 relu", "4 15 relu", "4 9 relu"]
    # What they had reserved is given back, and their slots can be used again.
    wait_for_workers(client, {"provider-0", "trainer-0", "trainer-1"})
    assert repository.verify().clean


@pytest.mark.long
def test_what_hangs_when_a_search_ends_keeps_no_trainer(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    """However long an evaluation may take: afterwards nobody would end it."""
    marks = tmp_path / "marks"
    marks.mkdir()
    faults = {9: "deaf", 12: "hang in C"}
    problem = tiny(FIRST=(4,), ACTIVATION=("relu",), SECOND=tuple(faults), FAULTS=faults, MARKS=str(marks))
    monkeypatch.setattr(executor, "LETTING_GO_S", 2.0)
    # The search's time is over when both have begun.
    monkeypatch.setattr(
        executor.Executor, "time_left_s", lambda self: 1000.0 - 2000.0 * (len(list(marks.iterdir())) == 2)
    )
    run = tmp_path / "run"
    result = nas.search(problem, Random(), repository=repository, evaluations=2, run=run, time_limit_s=1000)
    assert (result.stop[0], result.reports) == ("time limit", [])
    with RunView(run) as view:
        assert ["was restarted" in event.message for event in view.events("given up")] == [True, True]
    wait_for_workers(client, {"provider-0", "trainer-0", "trainer-1"})
    take_a_task_each(client)
    stats = repository.stats()
    assert (stats["live_attempts"], stats["unsettled"]) == (0, 0)
    assert repository.verify().clean


@pytest.mark.long
def test_what_hangs_when_a_study_ends_keeps_no_trainer(
    client: Any, tuned: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    (gate / "open").write_text("0")
    problem = tuned("looped.py", GATE=str(gate))
    repository = daskevo.open(tmp_path / "loops", "looped", client=client, objective="min loss", shards=8)
    monkeypatch.setattr(study_module, "LETTING_GO_S", 2.0)

    def until_one_scores(progress: Any) -> None:
        while not (gate / "1").exists():
            time.sleep(0.05)

    with tune.study(problem, repository=repository, run=tmp_path / "run") as study:
        result = study.run(Grid(), time_limit_s=0.01, on_progress=until_one_scores)
        assert result.stop[0] == "time limit"
    wait_for_workers(client, {"provider-0", "trainer-0", "trainer-1"})
    take_a_task_each(client)


@pytest.mark.long
def test_before_it_is_ready(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(trainer_tasks, "SETUP_S", 2.0)
    problem = tiny(FIRST=(4,), ACTIVATION=("relu",), SECOND=(3,), DATA="hang")
    with pytest.raises(RunFailed):
        nas.search(problem, Random(), repository=repository, evaluations=1, run=tmp_path / "run", evaluation_limit_s=1)
    assert failures(tmp_path / "run") in (["time limit"], ["trainer lost"])
    wait_for_workers(client, {"provider-0", "trainer-0", "trainer-1"})


@pytest.mark.usefixtures("alarm_clock")
def test_where_it_is_built_for_its_graph(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(FIRST=(4,), ACTIVATION=("relu",), SECOND=(9,), FAULTS={9: "hang in build"})
    with pytest.raises(RunFailed):
        nas.search(problem, Random(), repository=repository, evaluations=1, run=tmp_path / "run", evaluation_limit_s=1)
    assert failures(tmp_path / "run") == ["time limit"]


@pytest.fixture(scope="module")
def bare(client: Any) -> Iterator[Any]:
    """A client of a cluster with one trainer, which has no nanny."""
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as found:
        cluster.scale(0)
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--name", "bare"]
        command += ["--no-nanny", "--nthreads", "1", "--resources", "evaluation=1", "--no-dashboard"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            # A worker that is being ended counts as there until it has gone.
            wait_until(
                lambda: sorted(str(worker["name"]) for worker in workers_of(found).values()) == ["bare", "provider-0"]
            )
            yield found
        finally:
            process.kill()
            process.wait()


@pytest.mark.long
def test_where_nobody_can_end_it_its_trainer_gets_no_other_until_it_has_ended(
    bare: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    repository = daskevo.open(tmp_path / "repository", "tiny", client=bare, objective="max val_accuracy", shards=8)
    problem = tiny(FIRST=(4, 8), SECOND=(3, 6), FAULTS=dict.fromkeys((3, 6), "hang at first"), MARKS=str(marks))
    sent: list[int] = []

    def let_go(progress: Progress) -> None:
        if not progress.failures or (marks / "go on").exists():
            return
        with RunView(tmp_path / "run") as view:
            sent.append(sum(unit.worker is not None for unit in view.units() if unit.kind == "evaluate"))
        if len(sent) == 3:
            (marks / "go on").touch()

    result = nas.search(
        problem,
        Random(),
        repository=repository,
        evaluations=2,
        run=tmp_path / "run",
        evaluation_limit_s=10,
        on_progress=let_go,
    )
    assert result.stop[0] == "finished"
    assert sent == [1, 1, 1]
    with RunView(result.folder) as view:
        (event,) = view.events("time limit")
        assert "bare has no nanny" in event.message
        (back,) = view.events("trainer back")
        later = [unit for unit in view.units() if unit.kind == "evaluate" and unit.state == "done"]
        assert all(unit.started > back.time for unit in later)
        assert len(later) == 2
    assert repository.verify().clean


def test_when_all_trainers_are_stuck_they_are_named() -> None:
    client = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://scheduler:8786"))
    trainers = Trainers(client, lambda name, error: None)
    trainers.present["bare"] = Trainer("bare", "tcp://a", 1, nanny=False)
    upkeep = Upkeep(trainers, None, None, lambda: False)  # type: ignore[arg-type]
    trainers.take("bare", "key")
    upkeep.check_any(1.0)
    trainers.stick("bare", "key")
    upkeep.check_any(2.0)
    said = r"evaluation that was given up \(bare\).*`dask worker tcp://scheduler:8786 --resources evaluation=1"
    with pytest.raises(NoTrainer, match=said):
        upkeep.check_any(3.0 + NO_TRAINER_S)
    assert trainers.unstick("key")
    assert trainers.free()
    upkeep.check_any(4.0 + NO_TRAINER_S)


def test_a_trainer_that_is_silent_while_we_look_is_not_used() -> None:
    trainers = Trainers(None, lambda name, error: None)

    def look(address: str, heard: float, later: float) -> None:
        moment = time.monotonic()
        trainers._looked = moment - later
        found = {"t": Trainer("t", address, 1, nanny=True, heard=heard)}
        trainers._compare(found)
        trainers.present = found

    look("tcp://a", 1.0, 1.0)
    # This process may sleep as long as it likes: only what it looks at counts.
    look("tcp://a", 1.0, 10_000.0)
    assert trainers.free()
    for _ in range(int(SILENT_S)):
        look("tcp://a", 1.0, 1.0)
    assert trainers.is_silent("t")
    assert not trainers.free()
    look("tcp://b", 1.0, 1.0)
    assert trainers.free()
