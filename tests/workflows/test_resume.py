"""Stopping and going on: killed, interrupted, with reports or models lost; nothing is repeated, nothing is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Future
from distributed.comm import CommClosedError

import daskevo
from daskevo.errors import ModelRetired, RunFolderUnusable, RunMismatch, SchedulerUnreachable
from daskevo.runs import RunRecord, RunView
from daskevo.search import AgedEvolution, Report
from daskevo_workflows import nas
from daskevo_workflows.execution.executor import Executor
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.running_task import RunningTask
from daskevo_workflows.execution.running_tasks import RunningTasks
from tests.chaos.ledger import digests
from tests.waiting import wait_for_reports
from tests.workflows.gate import Gate

pytestmark = pytest.mark.processes

WIDE = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3, 6, 9, 12)}


def start(problem: Path, folder: Path, evaluations: int, log: Path, providers: int = 1) -> subprocess.Popen[str]:
    script = Path(__file__).parent / "search_script.py"
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, str(script), str(problem), str(folder), str(evaluations), str(providers)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def check_whole(folder: Path, found: dict[str, Any], evaluations: int) -> None:
    """The promises of a resumed run, from its record and what its last process found."""
    with RunView(folder / "run") as view:
        reports, requests = view.reports(), view.requests()
        assert len({report.number for report in reports}) == len(reports)
        assert sum(report.status == "finished" for report in reports) == evaluations
        assert {request.number for request in requests} == set(range(len(requests)))
        label = view.info.label
    assert found["summary"]["evaluations"] == evaluations
    assert found["clean"]
    expected: dict[str, list[str]] = {name: [f"population:{label}"] for name in found["population"]}
    for name in found["best"]:
        expected[name] = sorted([*expected.get(name, []), f"best:{label}"])
    assert found["labels"] == expected


def check_same(folder: Path, finished: dict[str, Any], kept: dict[str, list[str]]) -> None:
    """What was there when this was called last is there now: reports, and all tensors of the models not retired since.

    `finished` and `kept` take in what is there now.
    """
    with RunView(folder / "run") as view:
        reports = {report.model_id: report for report in view.reports() if report.status == "finished"}
    assert {name: reports.get(name) for name in finished} == finished
    repository = daskevo.open(folder / "root", "tiny")
    now = {}
    for model in repository.models():
        # Who lives on after a kill may be retiring what nobody needs.
        with contextlib.suppress(ModelRetired):
            now[model.model_id] = digests(repository.read(model.model_id).values())
    assert {name: now[name] for name in kept if name in now} == {name: kept[name] for name in kept if name in now}
    assert {repository.status(name).state for name in {*finished, *kept} - set(now)} <= {"retiring", "retired"}
    assert set(now) & {*finished, *reports}
    finished |= reports
    kept |= now


@pytest.mark.long
def test_killed_and_started_again(tiny: Callable[..., Path], tmp_path: Path) -> None:
    """SIGKILL in the middle, twice; the same command ends with exactly N evaluations, each trained once, all clean.

    First of the controlling process alone, whose workers live on for a while, then of every process.

    What was finished before a kill is the same after it, bit by bit, whoever serves its shard then.
    """
    marks = tmp_path / "marks"
    marks.mkdir()
    gate, log = Gate(tmp_path / "gate", 0), tmp_path / "log"
    problem = tiny(**WIDE, MARKS=str(marks), GATE=str(gate.folder))
    finished: dict[str, Any] = {}
    kept: dict[str, list[str]] = {}
    for reports, whole_job in ((3, False), (6, True)):
        # Enough for these reports, though one more may come of a trainer that lives on, and too few for the end.
        gate.let(gate.came + 4)
        process = start(problem, tmp_path, 10, log, providers=3)
        try:
            wait_for_reports(tmp_path, reports, process)
        finally:
            if whole_job:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
            process.communicate()
        check_same(tmp_path, finished, kept)
        if not whole_job:
            # The workers of the dead process notice and end themselves; until then they have the repository's shards.
            time.sleep(1)
    gate.let(1000)
    process = start(problem, tmp_path, 10, log, providers=3)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0, log.read_text()[-3000:]
    check_whole(tmp_path, json.loads(out.splitlines()[-1]), 10)
    check_same(tmp_path, finished, kept)
    assert len(finished) == 10
    with RunView(tmp_path / "run") as view:
        assert [session.ended for session in view.sessions()] == [None, None, "finished"]
    # What had been finished was not trained again: at most what was under way at each kill.
    assert len(list(marks.iterdir())) <= 10 + 2


def test_interrupted_by_hand(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    """Ctrl-C (here at a report) ends in good order; nothing is left of what was on its way; the same call goes on."""
    problem = tiny(**WIDE)

    def interrupt(progress: Progress) -> None:
        if progress.finished == 3:
            raise KeyboardInterrupt

    arguments: dict[str, Any] = {
        "repository": repository,
        "evaluations": 8,
        "run": tmp_path / "run",
        "freeze": "prefix",
    }
    with pytest.raises(KeyboardInterrupt):
        nas.search(problem, AgedEvolution(4, 2), on_progress=interrupt, **arguments)
    with RunView(tmp_path / "run") as view:
        assert view.sessions()[-1].ended == "interrupted"
        assert sum(report.status == "finished" for report in view.reports()) == 3
        assert {unit.state for unit in view.units() if unit.kind == "evaluate"} <= {"done", "cancelled"}
    assert repository.verify().clean
    result = nas.search(problem, AgedEvolution(4, 2), **arguments)
    assert result.summary()["evaluations"] == 8
    assert repository.verify().clean


@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
def test_a_put_without_its_report_is_found_and_counted(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """As if the process had died between the put and the report: the record of the run knows less than the
    repository."""
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(**WIDE, MARKS=str(marks))
    arguments: dict[str, Any] = {"repository": repository, "run": tmp_path / "run", "freeze": "prefix"}
    result = nas.search(problem, AgedEvolution(4, 2), evaluations=3, **arguments)
    lost = result.reports[-1]
    identity = result.info.identity
    record = RunRecord(tmp_path / "run", identity)
    with record._transaction() as execute:
        execute("DELETE FROM reports WHERE number = ?", (lost.number,))
    record.close()

    again = nas.search(problem, AgedEvolution(4, 2), evaluations=4, **arguments)
    assert len(list(marks.iterdir())) == 4
    found = next(report for report in again.reports if report.number == lost.number)
    for name in (
        "model_id",
        "quality",
        "metrics",
        "step",
        "ancestor",
        "prefix",
        "vertices",
        "frozen_share",
        "worker",
        "transfer",
    ):
        assert getattr(found, name) == getattr(lost, name), name
    assert found.own_bytes == lost.own_bytes
    assert found.full_bytes == lost.full_bytes
    with RunView(tmp_path / "run") as view:
        assert [event.number for event in view.events("found")] == [lost.number]
    assert again.summary()["evaluations"] == 4
    assert repository.verify().clean


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False], ids=["found on resume", "found by its trainer"])
@pytest.mark.filterwarnings("ignore:.*:ResourceWarning")
def test_another_model_of_that_name_is_not_taken_for_its_result(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """The run's folder is an older copy: its ids were given to other candidates since."""
    problem = tiny(**WIDE)
    arguments: dict[str, Any] = {"repository": repository, "run": tmp_path / "run", "freeze": "prefix"}
    result = nas.search(problem, AgedEvolution(4, 2), evaluations=3, **arguments)
    last = result.requests[-1]
    other = result.requests[0].candidate
    record = RunRecord(tmp_path / "run", result.info.identity)
    changed = last.to_json() | {"candidate": other.to_json()}
    with record._transaction() as execute:
        execute("DELETE FROM reports WHERE number = ?", (last.number,))
        execute("UPDATE requests SET request = ? WHERE number = ?", (json.dumps(changed), last.number))
        # Otherwise the request would be a duplicate of the first one.
        execute("UPDATE requests SET identity = NULL")
    record.close()
    if not known:
        monkeypatch.setattr(Executor, "_found", lambda self, request: False)

    again = nas.search(problem, AgedEvolution(4, 2), evaluations=3, **arguments)
    found = next(report for report in again.reports if report.number == last.number)
    assert (found.status, found.failure.kind) == ("failed", "repository")
    for candidate in (last.candidate, other):
        assert repr(candidate.to_json()) in found.failure.message
    assert found.quality is None
    assert again.summary()["evaluations"] == 3
    with RunView(tmp_path / "run") as view:
        assert len(view.events("session")) == len(view.sessions()) - 1 == 2


@pytest.mark.long
def test_a_put_without_its_report_is_counted_though_somebody_has_retired_it(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny(**WIDE)
    arguments: dict[str, Any] = {"repository": repository, "run": tmp_path / "run", "freeze": "prefix"}
    result = nas.search(problem, AgedEvolution(4, 2), evaluations=3, **arguments)
    lost = result.reports[-1]
    record = RunRecord(tmp_path / "run", result.info.identity)
    with record._transaction() as execute:
        execute("DELETE FROM reports WHERE number = ?", (lost.number,))
    record.close()
    repository.retire(lost.model_id)

    again = nas.search(problem, AgedEvolution(4, 2), evaluations=4, **arguments)
    found = next(report for report in again.reports if report.number == lost.number)
    assert (found.status, found.quality, found.step) == ("finished", lost.quality, lost.step)
    assert again.summary()["evaluations"] == 4
    assert again.summary()["failures"] == 0
    with RunView(tmp_path / "run") as view:
        assert lost.number in [event.number for event in view.events("model missing")]


@pytest.mark.long
def test_an_evaluation_that_is_cancelled_after_its_put_is_a_finished_one(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its report is lost with its task; its model isn't, and is released with the population like any other."""
    real, cancelled = RunningTasks.returned, []

    def returned(flights: RunningTasks, task: RunningTask, result: Report) -> None:
        if task.number in (1, 2):
            cancelled.append(task.number)
            flights.lost(task, "cancelled", "its task was cancelled")
        else:
            real(flights, task, result)

    monkeypatch.setattr(RunningTasks, "returned", returned)
    result = nas.search(
        tiny(**WIDE),
        AgedEvolution(4, 2),
        evaluations=10,
        repository=repository,
        run=tmp_path / "run",
        keep_best=1,
        freeze="prefix",
    )
    assert sorted(cancelled) == [1, 2]
    assert [report.status for report in result.reports] == ["finished"] * 10
    assert {model.model_id for model in repository.models()} == {*result.population(), result.best(1)[0].model_id}
    assert repository.verify().clean


@pytest.mark.long
def test_a_report_that_can_not_be_fetched_costs_no_evaluation(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks while it travels; the model is there."""
    fetch, broken = Future.result, []

    def result(future: Future, timeout: float | None = None) -> Any:
        if future.key.startswith("evaluate-") and len(broken) < 2:
            broken.append(future.key)
            raise CommClosedError("in <TCP (closed) ConnectionPool.gather>")
        return fetch(future, timeout)

    monkeypatch.setattr(Future, "result", result)
    result_of_run = nas.search(
        tiny(**WIDE), AgedEvolution(4, 2), evaluations=8, repository=repository, run=tmp_path / "run", freeze="prefix"
    )
    assert len(broken) == 2
    assert [report.status for report in result_of_run.reports] == ["finished"] * 8
    with RunView(tmp_path / "run") as view:
        assert len([event for event in view.events("again") if "could not be fetched" in event.message]) == 2
        assert len(view.events("found")) == 2
    assert repository.verify().clean


def test_a_connection_that_breaks_in_a_call_is_a_named_error(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(flights: RunningTasks, seconds: float) -> Any:
        raise CommClosedError("in <TCP (closed) ConnectionPool>")

    monkeypatch.setattr(RunningTasks, "wait", broken)
    with pytest.raises(SchedulerUnreachable, match="run the same command to go on"):
        nas.search(tiny(**WIDE), AgedEvolution(4, 2), evaluations=2, repository=repository, run=tmp_path / "run")
    monkeypatch.undo()
    again = nas.search(tiny(**WIDE), AgedEvolution(4, 2), evaluations=2, repository=repository, run=tmp_path / "again")
    assert again.summary()["evaluations"] == 2


@pytest.mark.long
def test_a_connection_that_breaks_costs_no_evaluation(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """The client is back at once, its tasks are not: they are submitted again, and nobody is said to have cancelled
    them."""
    client, broken = repository.client, []
    # Two finish, and the others are on their way until the connection is known to be lost.
    gate = Gate(tmp_path / "gate", 2)

    def again() -> list[Any]:
        with RunView(tmp_path / "run") as view:
            return [event for event in view.events("again") if "connection to the scheduler" in event.message]

    def break_once(progress: Progress) -> None:
        if progress.finished == 2 and not broken:
            broken.append(progress.finished)
            client.loop.add_callback(client.scheduler_comm.comm.abort)
        elif broken and again():
            gate.let(1000)

    result = nas.search(
        tiny(**WIDE, GATE=str(gate.folder)),
        AgedEvolution(4, 2),
        evaluations=8,
        repository=repository,
        run=tmp_path / "run",
        on_progress=break_once,
        freeze="prefix",
    )
    assert broken == [2]
    assert [report.status for report in result.reports] == ["finished"] * 8
    assert again()
    assert repository.verify().clean


def test_a_report_without_its_model_is_said(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(**WIDE)
    arguments: dict[str, Any] = {"repository": repository, "run": tmp_path / "run", "freeze": "prefix"}
    result = nas.search(problem, AgedEvolution(4, 2), evaluations=4, **arguments)
    gone = result.best(1)[0].model_id
    repository.retire(gone)
    for evaluations in (4, 6):  # noted once, however often the run goes on
        again = nas.search(problem, AgedEvolution(4, 2), evaluations=evaluations, **arguments)
    with RunView(tmp_path / "run") as view:
        (event,) = view.events("model missing")
    assert event.facts == {"model": gone}
    assert gone in event.message
    assert "retir" in event.message
    assert again.summary()["evaluations"] == 6
    assert repository.verify().clean


@pytest.mark.long
def test_a_run_whose_models_another_keras_cannot_load_does_not_go_on(
    repository: Any,
    tiny: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from daskevo import models
    from daskevo.errors import CannotRebuild
    from daskevo.models import versions

    problem = tiny(**WIDE)

    def search(evaluations: int) -> Any:
        return nas.search(problem, "random", repository=repository, evaluations=evaluations, run=tmp_path / "run")

    search(2)

    def cannot(graph: Any, custom_objects: Any = None) -> None:
        raise CannotRebuild("layer 'first' of the record can't be built here")

    with monkeypatch.context() as patch:
        patch.setattr(versions, "is_of_running_keras", lambda graph: False)
        assert len(search(3).reports) == 3  # another version, which reads them all
        patch.setattr(models, "check_rebuild", cannot)
        with pytest.raises(CannotRebuild, match=r"3 of them this run's own: .*: layer 'first'") as caught:
            search(4)
        assert len(caught.value.models) == 3
        with RunView(tmp_path / "run") as view:
            assert len(view.reports()) == 3
        # As earlier versions of daskevo recorded: a model may be fine, and only what its record says not.
        patch.setattr(versions, "written_by", lambda graph: None)
        caplog.clear()
        assert len(search(4).reports) == 4
    assert "can't load 3 stored models, written by an unknown version of Keras" in caplog.text


@pytest.mark.long
def test_label_changes_that_were_decided_are_carried_out_on_resume(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Killed between the report's transaction and the labels: the record knows what is still to be done."""
    problem = tiny(**WIDE)
    arguments: dict[str, Any] = {"repository": repository, "run": tmp_path / "run", "freeze": "prefix"}
    result = nas.search(problem, AgedEvolution(2, 2), evaluations=6, keep_best=1, **arguments)
    label = f"best:{result.info.label}"
    (best,) = (model.model_id for model in repository.models() if label in model.labels)
    other = next(model.model_id for model in repository.models() if label not in model.labels)
    repository.hold(other, label)
    record = RunRecord(tmp_path / "run", result.info.identity)
    with record._transaction() as execute:
        execute("INSERT INTO labels (action, label, model_id) VALUES ('release', ?, ?)", (label, other))
    record.close()
    nas.search(problem, AgedEvolution(2, 2), evaluations=6, keep_best=1, **arguments)
    assert [model.model_id for model in repository.models() if label in model.labels] == [best]


def test_another_repository_is_refused_and_no_label_change_is_ticked_off(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    problem = tiny()
    result = nas.search(problem, "random", repository=repository, evaluations=2, run=tmp_path / "run")
    best = result.best(1)[0].model_id
    record = RunRecord(tmp_path / "run", result.info.identity)
    with record._transaction() as execute:
        execute("INSERT INTO labels (action, label, model_id) VALUES ('hold', 'user:paper', ?)", (best,))
    record.close()
    other = daskevo.open(tmp_path / "other", "tiny", client=client, objective="max val_accuracy", shards=8)
    with pytest.raises(RunMismatch, match="belongs to") as caught:
        nas.search(problem, "random", repository=other, evaluations=4, run=tmp_path / "run")
    for root in (repository.root, other.root):
        assert root in str(caught.value)
    assert other.models() == []
    nas.search(problem, "random", repository=repository, evaluations=3, run=tmp_path / "run")
    assert "user:paper" in repository.status(best).labels


def test_two_at_once(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(**WIDE)
    caught: list[RunFolderUnusable] = []

    def second(progress: Progress) -> None:
        if progress.finished == 1 and not caught:
            with pytest.raises(RunFolderUnusable, match="carried on by process") as info:
                nas.search(problem, AgedEvolution(4, 2), repository=repository, evaluations=2, run=tmp_path / "run")
            caught.append(info.value)

    nas.search(
        problem, AgedEvolution(4, 2), repository=repository, evaluations=2, run=tmp_path / "run", on_progress=second
    )
    assert caught
