"""From a real record to the report's series: sessions, clocks, duplicates, failures, and a run that still goes on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, RunFolderUnusable
from daskevo.runs import RunRecord, RunView, SessionRow, Unit
from daskevo.search import Report, Request, TransferReport
from daskevo.search.requests import Failure
from daskevo.space import Candidate, Choice, Space
from daskevo.types import ModelId
from daskevo_workflows.reports import write_report
from daskevo_workflows.reports.arms import labelled
from daskevo_workflows.reports.run_reader import RunningTime, read_run, state_of

SPACE = Space("tiny", (Choice("width", (16, 32)), Choice("activation", ("relu", None))))


def identity(**changes: Any) -> dict[str, Any]:
    return {
        "problem": {"name": "flights", "rows": 40000},
        "space": SPACE.to_json(),
        "objective": "max val_auc",
        "seed": 7,
        "strategy": {"name": "random"},
        "policy": {"transfer": True, "freeze": "prefix"},
    } | changes


def request(number: int, **fields: Any) -> Request:
    return Request(number, ModelId(f"run-{number:05d}"), Candidate((number % 2, 1)), **fields)


def finished(number: int, ended: float, **fields: Any) -> Report:
    known: dict[str, Any] = {
        "step": 94,
        "quality": 0.6 + number / 100,
        "seconds": {"inherit": 0.5, "training": 2.0},
        "vertices": 10,
        "own_bytes": 100,
        "full_bytes": 400,
        "parameters": 100,
        "worker": "trainer-0",
        "started": ended - 2.5,
        "ended": ended,
    }
    return Report(number, ModelId(f"run-{number:05d}"), "finished", **known | fields)


def written(folder: Path, **changes: Any) -> Path:
    record = RunRecord(
        folder, identity(**changes), {"workers": ["trainer-0", "trainer-1"], "machine": {"host": "node1", "cores": 2}}
    )
    now = time.time()
    record.asked([request(0), request(1, parent=ModelId("run-00000")), request(2), request(3), request(4)])
    record.reported(finished(0, now), [], [])
    record.reported(
        finished(
            1,
            now + 0.5,
            ancestor=ModelId("run-00000"),
            prefix=4,
            frozen_share=0.4,
            worker="trainer-1",
            transfer=TransferReport("other settings", "d: units 8, the ancestor's 4", 2, 4, 2, 300),
            metrics={"depth": 3.0, "val_auc": 0.61},
        ),
        [],
        [],
    )
    record.reported(Report(2, ModelId("run-00002"), "failed", failure=Failure("not finite", "val_auc is NaN")), [], [])
    record.reported(
        Report(3, ModelId("run-00000"), "duplicate", quality=0.6, duplicate_of=0, started=1.0, ended=2.0), [], []
    )
    record.event("storage", "", stored_bytes=150, full_copy_bytes=800, live_models=2)
    record.event("session", "", evaluations=40)
    record.event("load", "load 1.0", load=1.0)
    record.event("stopped", "the time limit is over", word="time limit")
    record.close("time limit")
    return folder


def test_a_record_becomes_the_reports_series(tmp_path: Path) -> None:
    run = read_run(written(tmp_path / "flights"))
    assert [e.status for e in run.evaluations].count("finished") == 2
    first, second = run.finished
    assert (first.model_id, second.ancestor, second.parent, second.prefix) == ("run-00000", "run-00000", "run-00000", 4)
    assert first.choices == {"width": "16", "activation": "none"}
    assert (first.own_bytes, first.full_bytes, first.frozen_share) == (100, 400, 0.0)
    assert [e.reason for e in run.failed] == ["not finite: val_auc is NaN"]
    assert run.duplicates == 1
    assert run.storage[0].stored_bytes == 150
    assert run.repository_s == pytest.approx(1.0)
    assert run.facts["problem"] == "flights"
    assert run.facts["space"] == "tiny: 2 choices, 4 candidates"
    assert run.facts["machine"] == "host = node1, cores = 2"
    assert run.facts["policy"] == "transfer = yes, freeze = prefix"
    assert run.state == "the time limit is over; 1 evaluation to be taken up again"
    assert run.asked == 40
    assert [(what.kind, what.message) for what in run.happenings] == [("stopped", "the time limit is over")]


@pytest.mark.parametrize(
    ("message", "said"),
    [("KeyboardInterrupt", "interrupted"), ("interrupted by Ctrl-C or a signal", "interrupted by Ctrl-C or a signal")],
)
def test_who_interrupted_a_run_need_not_know_python(tmp_path: Path, message: str, said: str) -> None:
    record = RunRecord(tmp_path / "run", {"seed": 0}, {})
    record.event("stopped", message)
    record.close("interrupted")
    with RunView(tmp_path / "run") as view:
        state = state_of(view.sessions(), view.events(), 3)
    assert state == f"{said}; 3 evaluations to be taken up again"


def test_why_no_more_was_inherited_is_on_the_page(tmp_path: Path) -> None:
    page = write_report(written(tmp_path / "r")).read_text("utf-8")
    assert "other settings 1" in page
    assert ">d: units 8, the ancestor&#39;s 4<" in page


def test_what_is_rejected_has_not_failed(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "r", identity())
    record.asked([request(0), request(1), request(2)])
    for number, kind in enumerate(("rejected", "rejected", "error")):
        failure = Failure(kind, "its depth would be 7")
        record.reported(Report(number, ModelId(f"run-{number:05d}"), "failed", failure=failure), [], [])
    record.close()
    assert read_run(tmp_path / "r").rejected == 2
    page = write_report(tmp_path / "r").read_text("utf-8")
    assert "1 failed, 2 rejected" in page
    assert "Failed and rejected evaluations" in page


def test_several_objectives_are_read(tmp_path: Path) -> None:
    run = read_run(written(tmp_path / "r", objective=["max val_auc", "min depth"]))
    assert [str(goal) for goal in (run.objective, *run.others)] == ["max val_auc", "min depth"]
    # The first evaluation has no depth.
    assert [(e.number, dict(e.metrics)) for e in run.front] == [(1, {"depth": 3.0})]
    assert read_run(written(tmp_path / "one")).others == ()


def test_an_evaluation_that_its_trainer_never_reported_has_its_place(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "r", identity())
    record.asked([request(0)])
    record.planned({0: "graph"}, [Unit("evaluate-0", "evaluate", (0,))])
    record.unit_placed("evaluate-0", "trainer-7")
    time.sleep(0.02)
    failure = Failure("time limit", "past its limit of 5 s")
    record.reported(Report(0, ModelId("run-00000"), "failed", failure=failure, ended=time.time()), [], [])
    record.close()
    (lost,) = read_run(tmp_path / "r").evaluations
    assert lost.worker == "trainer-7"
    assert lost.started_s is not None
    assert lost.ended_s is not None
    assert lost.started_s < lost.ended_s


def test_a_duplicate_takes_no_room_on_a_trainer(tmp_path: Path) -> None:
    (duplicate,) = [e for e in read_run(written(tmp_path / "r")).evaluations if e.status == "duplicate"]
    assert duplicate.started_s is None


def test_pauses_between_sessions_take_no_room() -> None:
    clock = RunningTime(
        [SessionRow(100.0, 110.0, "a", None), SessionRow(500.0, 530.0, "b", None), SessionRow(600.0, 600.0, "c", None)]
    )
    assert [clock.at(moment) for moment in (50.0, 100.0, 110.0, 499.0, 500.0, 520.0, 590.0, 700.0)] == [
        0.0,
        0.0,
        10.0,
        10.0,
        10.0,
        30.0,
        40.0,
        40.0,
    ]
    assert RunningTime([]).at(3.0) == 0.0


def test_a_trainers_wrong_clock_is_set_right(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "r", identity())
    record.asked([request(0), request(1)])
    for number in range(2):
        time.sleep(0.02)
        its_now = time.time() - 3600.0
        record.reported(finished(number, its_now, started=its_now - 0.01), [], [])
    record.close()
    first, second = read_run(tmp_path / "r").evaluations
    assert first.started_s is not None
    assert first.ended_s is not None
    assert second.started_s is not None
    assert 0 <= first.started_s < first.ended_s <= second.started_s < 600


def test_a_run_that_goes_on_can_be_reported(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "r", identity())
    record.asked([request(0)])
    try:
        page = write_report(tmp_path / "r").read_text("utf-8")
    finally:
        record.close()
    assert "running, or killed; 1 evaluation without a report" in page
    assert "No evaluation has ended yet" in page


def test_two_runs_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a"), written(tmp_path / "b", policy={"transfer": False})
    first, second, third = read_run(one), read_run(other), read_run(written(tmp_path / "c"))
    assert [run.label for run in labelled([first, second])] == ["with transfer", "no transfer"]
    assert [run.label for run in labelled([first, third])] == ["a", "c"]
    labels = [run.label for run in labelled([first, read_run(written(tmp_path / "elsewhere" / "a"))])]
    assert labels[0] != labels[1]
    page = write_report(one, other)
    assert write_report(one, other, output=f"{tmp_path}/both.html").read_bytes() == page.read_bytes()
    assert page.name == "report-with-b.html"
    assert "Side by side" in page.read_text("utf-8")


def test_a_folder_without_a_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(RunFolderUnusable, match="holds no run: it is empty"):
        write_report(tmp_path)


def test_an_event_that_was_not_written_by_a_run_is_said(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "r", identity())
    record.event("storage", "", stored_bytes="many")
    record.close()
    with pytest.raises(CorruptRecord, match="what the repository holds"):
        read_run(tmp_path / "r")


def test_reading_leaves_the_record_as_it_is(tmp_path: Path) -> None:
    folder = written(tmp_path / "r")
    with RunView(folder) as view:
        before = (view.reports(), view.sessions())
    read_run(folder)
    with RunView(folder) as view:
        assert (view.reports(), view.sessions()) == before
