"""What a search tells of itself: sums of its reports, what its trainers are at, and that nothing there ends it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.runs import SessionRow
from daskevo_plugins.dashboard.search_news import MOST_POINTS, MOST_STEPS, SearchNews, ShownUnit
from daskevo_workflows.dashboard import search
from daskevo_workflows.dashboard.search import SearchShowing, facts_of, unit_rows
from daskevo_workflows.dashboard.search_totals import SearchAccounts
from daskevo_workflows.execution.running_task import RunningTask
from tests.runs.test_run_state import failure, finished, run_state


def accounts_of(reports: list[Any], **options: Any) -> SearchAccounts:
    kept = run_state(requests=len(reports), **options)
    made = SearchAccounts(kept, lambda moment: moment - 100.0)
    for report in reports:
        kept.report(report)
        made.update()
    return made


def test_each_report_counts_once() -> None:
    made = accounts_of(
        [
            finished(0, 0.5, ended=101.0, worker="t0", seconds={"training": 2.0, "put": 0.1}),
            failure(1),
            finished(2, 0.4, ended=103.0, worker="t1", seconds={"training": 4.0, "own": 1.0}, frozen_share=0.5),
            finished(3, 0.9, ended=104.0, worker="t0", seconds={"training": 1.0}, ancestor="m0"),
        ]
    )
    points = made.points({"m3"})
    assert [(point.at_s, point.quality, point.frozen_share) for point in points] == [
        (1.0, 0.5, 0.0),
        (3.0, 0.4, 0.5),
        (4.0, 0.9, 0.0),
    ]
    assert [(point.inherited, point.is_member) for point in points] == [(False, False), (False, False), (True, True)]
    assert made.best_line() == ((1.0, 0.5), (4.0, 0.9))
    assert [tuple(row) for row in made.phases()] == [("training", 3, 7.0), ("put", 1, 0.1), ("own", 1, 1.0)]
    assert made.trainers["t0"].evaluations == 2
    assert made.trainers["t0"].seconds == {"training": 3.0, "put": 0.1}


def test_the_line_of_the_best_does_not_go_back_with_a_trainers_clock() -> None:
    made = accounts_of(
        [finished(0, 0.4, ended=3_701.0), finished(1, 0.5, ended=102.0), finished(2, 0.6, ended=3_703.0)]
    )
    assert made.best_line() == ((3_601.0, 0.4), (3_601.0, 0.5), (3_603.0, 0.6))


def test_the_best_follows_the_objective_and_all_stays_bounded() -> None:
    count = 4 * MOST_POINTS
    reports = [finished(number, 1.0 / (1 + number), ended=float(100 + number)) for number in range(count)]
    made = accounts_of(reports, objective="min q", evaluations=count)
    points = made.points(())
    assert len(points) == MOST_POINTS
    assert points[-1].number == count - 1
    assert len(made.best_line()) == MOST_STEPS
    assert made.best_line()[-1] == (count - 1.0, 1.0 / count)


def test_infinite_qualities_are_not_sent() -> None:
    made = accounts_of([finished(0, float("inf"), ended=101.0), finished(1, 0.5, ended=102.0, frozen_share=7.0)])
    assert [(point.number, point.frozen_share) for point in made.points(())] == [(1, 1.0)]


def test_units_and_facts_are_said() -> None:
    counts = {"evaluate": {"submitted": 4, "done": 5, "odd": 1}, "match": {"submitted": 1}, "a": {}}
    # Of evaluations the record counts those that were planned ahead, and those whose end it has not stored yet.
    assert list(unit_rows(counts, 2, 1, "running")) == [
        ShownUnit("a", 0, 0, 0, 0, 0, 0),
        ShownUnit("evaluate", 1, 2, 5, 0, 0, 0),
        ShownUnit("match", 0, 1, 0, 0, 0, 0),
    ]
    assert all(row.ready == row.under_way == 0 for row in unit_rows(counts, 2, 1, "ended"))
    identity = {"strategy": {"name": "grid"}, "policy": {"transfer": False, "freeze": "none"}}
    assert list(facts_of(identity)) == [("strategy", "grid"), ("inherits", "nothing"), ("freezes", "none")]
    assert list(facts_of({"strategy": 7, "policy": None, "objective": ["max a", "min b"]})) == [
        ("objectives", "max a, min b")
    ]


def task(number: int, place: str, **said: float) -> RunningTask:
    request, unit, trainer = (SimpleNamespace(number=number, key=f"k{number}", name=place) for _ in range(3))
    said = {"submitted": time.monotonic() - 9.0, **said}
    return RunningTask(key=unit.key, trainer=trainer, request=request, unit=unit, **said)  # type: ignore[arg-type]


def executor_of(tasks: list[RunningTask]) -> Any:
    """What is looked at of an executor."""
    trainers = SimpleNamespace(
        present={name: SimpleNamespace(paused=name == "t3") for name in ("t0", "t1", "t2", "t3", "t4")},
        restarting={"t9"},
        stuck={"k": SimpleNamespace(name="t4")},
        slots=5,
        is_silent=lambda name: name == "t2",
    )
    kept = run_state()
    kept.report(finished(0, 0.5, ended=time.time(), worker="t0", seconds={"training": 2.0}))
    info = SimpleNamespace(id="id", name="name", identity={})
    return SimpleNamespace(
        record=SimpleNamespace(
            sessions=lambda: [SessionRow(time.time() - 50.0, time.time(), "1", None)],
            info=info,
            unit_counts=lambda: {"evaluate": {"submitted": 9}},
        ),
        submission=SimpleNamespace(planned=3),
        run_state=kept,
        strategy=SimpleNamespace(population=lambda: ["m0"]),
        tasks=SimpleNamespace(all=tasks, trainers=trainers),
        holdings=SimpleNamespace(storage={}),
        closing=SimpleNamespace(deadline=lambda: SimpleNamespace(at=time.time() + 100.0, margin_s=20.0)),
        time_left_s=lambda: 30.0,
    )


def test_each_trainer_says_what_it_is_at() -> None:
    now = time.monotonic()
    tasks = [task(1, "t0", begun=now - 8, ready=now - 7, chosen=now - 6), task(2, "t1")]
    began = time.time()
    news = SearchShowing(SimpleNamespace(id="c"), executor_of(tasks))._news("running", "")
    took, running = time.monotonic() - now, time.time() - began
    said = {row.trainer: (row.doing, row.what) for row in news.trainers}
    assert said == {
        "t0": ("evaluating", "evaluation 1: trains, scores and puts"),
        "t1": ("evaluating", "is sent evaluation 2"),
        "t2": ("silent", ""),
        "t3": ("paused", ""),
        "t4": ("stuck", ""),
        "t9": ("restarting", ""),
    }
    assert news.units == (ShownUnit("evaluate", 3, news.under_way, 0, 0, 0, 0),)
    assert news.under_way == 2
    assert 5.99 < news.trainers[0].for_s < 6.01 + took
    assert news.trainers[0].spent_s == (2.0,)
    assert (news.deadline_s, news.population) == (30.0, 1)
    assert 49.99 < news.running_s < 50.01 + running
    assert SearchNews.from_json(news.to_json()) == news


@pytest.mark.parametrize("fault", ["picture", "loop"])
def test_nothing_that_goes_wrong_there_ends_a_search(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(id="c", loop=None)
    showing = SearchShowing(client, executor_of([]))
    if fault == "picture":
        monkeypatch.setattr(search.Progress, "of", lambda *args: 1 / 0)
    showing.look()
    showing.look()
    showing.close("finished", "")
    assert showing._sender.given_up
