"""Searches go on, or end and say why, when evaluations fail, and when trainers and providers die."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskevo.deploy.worker_list import workers_of
from daskevo.errors import InvalidProblem, RunError, RunFailed
from daskevo.runs import RunView
from daskevo.search import Random
from daskevo_workflows import nas
from daskevo_workflows.execution.progress import Progress
from tests.workflows.test_search import WIDE, labels, search

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("raise", "error", "ValueError: does not train"),
        pytest.param("nan", "not finite", "nan", marks=pytest.mark.long),
        pytest.param("inf", "not finite", "inf", marks=pytest.mark.long),
        pytest.param("lost", "not finite", "the loss is nan at the end of training", marks=pytest.mark.long),
        pytest.param(
            "nan weights",
            "not finite",
            "1 of the model's 6 weights hold values that are no numbers (nan, inf)",
            marks=pytest.mark.long,
        ),
        pytest.param("build", "build", "ArithmeticError: no such model", marks=pytest.mark.long),
        pytest.param("lambda", "flatten", "Lambda", marks=pytest.mark.long),
        pytest.param("huge", "not finite", "1000000", marks=pytest.mark.long),
        pytest.param("exit", "error", "SystemExit: 3", marks=pytest.mark.long),
        pytest.param("exit in build", "build", "SystemExit: no such model", marks=pytest.mark.long),
        pytest.param("exit in score", "error", "SystemExit: bad score", marks=pytest.mark.long),
        pytest.param("base", "error", "Unheard: does not train", marks=pytest.mark.long),
        pytest.param("interrupt", "error", "KeyboardInterrupt", marks=pytest.mark.long),
        pytest.param("unreadable", "error", "Unreadable", marks=pytest.mark.long),
    ],
)
def test_failures_are_recorded_and_survived(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, fault: str, kind: str, said: str
) -> None:
    result = search(tiny(SECOND=(3, 6, 9), FAULTS={6: fault}), repository, tmp_path, 8)
    failures = [report for report in result.reports if report.status == "failed"]
    assert {report.failure.kind for report in failures} == {kind}
    assert all(said in report.failure.message for report in failures)
    assert all("tiny" in report.failure.traceback for report in failures if kind == "error")
    assert {report.worker for report in result.reports} <= {"trainer-0", "trainer-1", None}
    with RunView(result.folder) as view:
        assert not view.events("again")
    assert len([report for report in result.reports if report.status == "finished"]) == 8
    # They never win, never are parents, never inherited from; nothing of them stays.
    failed = {report.model_id for report in failures}
    assert not failed & {found.model_id for found in result.best(8)}
    assert not failed & {request.parent for request in result.requests}
    assert not failed & {report.ancestor for report in result.reports}
    assert not failed & set(labels(repository))
    assert repository.verify().clean


@pytest.mark.long
def test_all_failing_ends_with_a_clear_message(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    problem = tiny(FIRST=tuple(range(1, 20)), FAULTS={3: "raise", 6: "nan"})
    with pytest.raises(RunFailed, match=r"2[01] evaluations failed") as caught:
        search(problem, repository, tmp_path, 5)
    assert caught.value.reason == "failures"
    assert repository.stats()["payload_bytes"] == 0
    result = nas.Result(tmp_path / "run", repository)
    with pytest.raises(RunError, match="no evaluation"):
        result.best()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("misnamed", r"'max val_accuracy', .* gave loss, validation_accuracy: did you mean 'max validation_accuracy'"),
        ("no metrics", r"score\(\) of problem 'tiny' returned NoneType"),
        ("no data", r"'tiny' has no data on trainer-[01]: .* FileNotFoundError: /nowhere"),
        ("other data", r"'tiny': data\(\) must return Data, not dict"),
    ],
)
def test_a_fault_of_the_problem_ends_the_run_at_once(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, fault: str, said: str
) -> None:
    """Every candidate would fail alike: none but those that were under way is tried."""
    problem = tiny(**WIDE, FAULTS=dict.fromkeys(WIDE["SECOND"], fault), DATA=fault)
    with pytest.raises(InvalidProblem, match=said) as caught:
        search(problem, repository, tmp_path, 10)
    assert "the same command or call begins it anew" in str(caught.value)
    assert "InvalidProblem" not in str(caught.value)
    with RunView(tmp_path / "run") as view:
        reports = view.reports()
        assert view.sessions()[-1].ended == "error"
    assert [report.failure.kind for report in reports] == ["problem"]
    assert repository.verify().clean


@pytest.mark.long
def test_a_problem_that_has_worked_is_not_given_up(repository: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(**WIDE, FAULTS=dict.fromkeys(WIDE["SECOND"], "misnamed later"), MARKS=str(marks))
    result = search(problem, repository, tmp_path, 10)
    assert result.stop[0] == "failures"
    assert {report.failure.kind for report in result.reports if report.failure} == {"problem"}


@pytest.mark.long
def test_a_dying_trainer_is_survived_and_its_evaluation_not_repeated_for_ever(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(FIRST=(4,), SECOND=(3, 9), FAULTS={9: "die"}, MARKS=str(marks))
    result = search(problem, repository, tmp_path, 4, strategy=Random())
    assert result.stop[0] == "exhausted"
    failures = [report for report in result.reports if report.status == "failed"]
    assert [report.failure.kind for report in failures] == ["trainer lost"] * 2
    tried = [mark.read_text() for mark in marks.iterdir()]
    assert sorted(tried) == ["4 3 relu", "4 3 tanh"] + ["4 9 relu"] * 2 + ["4 9 tanh"] * 2
    assert repository.verify().clean


def test_a_trainer_that_dies_once_costs_no_evaluation(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(FIRST=(4,), SECOND=(9,), FAULTS={9: "die once"}, MARKS=str(marks))
    result = search(problem, repository, tmp_path, 2, strategy=Random())
    assert [report.status for report in result.reports] == ["finished"] * 2
    with RunView(result.folder) as view:
        assert len(view.events("again")) >= 1


@pytest.mark.long
def test_a_search_goes_on_after_a_provider_that_was_silent(
    client: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """A trainer dies meanwhile: whether it had put its model can't be asked."""
    import daskevo

    def pid(dask_worker: Any) -> tuple[str, int]:
        return dask_worker.name, os.getpid()

    def stop(progress: Progress) -> None:
        if progress.finished == 3 and not woken:
            pids = dict(client.run(pid).values())
            os.kill(pids["provider-0"], signal.SIGSTOP)
            os.kill(pids["trainer-0"], signal.SIGKILL)
            woken.append(threading.Timer(8.0, os.kill, (pids["provider-0"], signal.SIGCONT)))
            woken[0].start()

    woken: list[threading.Timer] = []
    repository = daskevo.open(tmp_path / "root", "tiny", client=client, shards=8, timeout_s=2)
    result = search(tiny(**WIDE), repository, tmp_path, 10, on_progress=stop)
    assert result.summary()["evaluations"] == 10
    assert woken[0].finished.is_set()
    assert repository.verify().clean


@pytest.mark.long
def test_models_in_memory_that_went_with_their_provider_do_not_end_a_search(
    client: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """Labels are then to be taken from models that are lost."""
    import daskevo

    def pid(dask_worker: Any) -> tuple[str, int]:
        return dask_worker.name, os.getpid()

    def kill(progress: Progress) -> None:
        if progress.finished == 5 and not killed:
            killed.append(dict(client.run(pid).values())["provider-0"])
            os.kill(killed[0], signal.SIGKILL)

    killed: list[int] = []
    repository = daskevo.open(None, "tiny", client=client, objective="max val_accuracy", shards=8)
    result = search(tiny(**WIDE), repository, tmp_path, 12, on_progress=kill)
    assert killed
    assert result.summary()["evaluations"] == 12


@pytest.mark.long
def test_a_provider_that_dies_between_a_query_and_its_answer(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    """The query of a batch is pinned to a process that is gone: evaluations go on without its answer, nothing fails."""
    from daskevo_workflows.execution import running_tasks

    def kill(progress: Progress) -> None:
        if progress.finished == 4 and not killed:
            killed.append(1)
            workers = workers_of(client).items()
            (provider,) = (address for address, worker in workers if worker["name"] == "provider-0")
            pid = client.run(os.getpid, workers=[provider])[provider]
            os.kill(pid, signal.SIGKILL)

    killed: list[int] = []
    before = running_tasks.MATCH_S
    running_tasks.MATCH_S = 3.0
    try:
        result = search(tiny(**WIDE), repository, tmp_path, 10, on_progress=kill)
    finally:
        running_tasks.MATCH_S = before
    assert killed
    assert result.summary()["evaluations"] == 10
    assert result.summary()["failures"] == 0
    assert repository.verify().clean
