"""The accounts of a run: exact budgets, duplicates, failures, the best, labels."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.runs import LabelChange, RunState
from daskevo.runs.run_state import IN_VAIN
from daskevo.search import Failure, Report, Request
from daskevo.space import Candidate
from daskevo.types import ModelId, Objective


def run_state(evaluations: int = 10, objective: str = "max q", keep_best: int = 2, requests: int = 12) -> RunState:
    made = RunState(Objective.parse(objective), evaluations, "run", keep_best)
    made.ask(Request(number, ModelId(f"m{number}"), Candidate((number,))) for number in range(requests))
    return made


def finished(number: int, quality: float, **fields: object) -> Report:
    return Report(number, ModelId(f"m{number}"), "finished", quality=quality, **fields)  # type: ignore[arg-type]


def failure(number: int, kind: str = "error") -> Report:
    return Report(number, ModelId(f"m{number}"), "failed", failure=Failure(kind, "why"))  # type: ignore[arg-type]


def test_pending_requests_take_up_the_budget() -> None:
    accounts = run_state(evaluations=10, requests=4)
    assert accounts.wanted == 6
    accounts.report(finished(0, 0.5))
    assert accounts.wanted == 6
    accounts.report(failure(1))
    assert accounts.wanted == 7
    accounts.report(Report(2, ModelId("m0"), "duplicate", quality=0.5, duplicate_of=0))
    assert accounts.wanted == 8
    assert [request.number for request in accounts.pending] == [3]
    assert accounts.next_number == 4


def test_the_budget_counts_finished_evaluations_only() -> None:
    accounts = run_state(evaluations=2)
    accounts.report(finished(0, 0.5))
    accounts.report(failure(1))
    assert accounts.stop_reason() is None
    accounts.report(finished(2, 0.5))
    assert accounts.stop_reason() == ("finished", "2 evaluations finished")


def test_a_report_twice_changes_nothing() -> None:
    accounts = run_state()
    assert accounts.report(finished(0, 0.5))
    assert accounts.report(finished(0, 0.9)) == []
    assert accounts.counts == {"finished": 1, "failed": 0, "duplicate": 0}
    assert accounts.best(1)[0].quality == 0.5


@pytest.mark.parametrize(("evaluations", "allowed"), [(5, 20), (30, 30)])
def test_too_many_failures_end_the_run_and_say_the_last_reason(evaluations: int, allowed: int) -> None:
    accounts = run_state(evaluations=evaluations, requests=40)
    for number in range(allowed):
        assert accounts.stop_reason() is None
        accounts.report(failure(number))
    stop = accounts.stop_reason()
    assert stop is not None
    assert stop[0] == "failures"
    assert "why" in stop[1]


def test_the_first_failure_is_kept_and_what_is_rejected_is_none() -> None:
    accounts = run_state(evaluations=10, requests=5)
    accounts.report(Report(0, ModelId("m0"), "failed", failure=Failure("rejected", "too large", "")))
    accounts.report(finished(1, 0.5))
    assert accounts.first_failure is None
    for number in (3, 2):
        accounts.report(failure(number))
    assert accounts.first_failure == accounts.reports[3]


def test_duplicates_in_a_row_end_the_run() -> None:
    accounts = run_state(evaluations=10, requests=IN_VAIN + 2)
    accounts.report(finished(0, 0.5))
    for number in range(1, IN_VAIN + 1):
        assert accounts.stop_reason() is None
        accounts.report(accounts.duplicate(number, 0))
    stop = accounts.stop_reason()
    assert stop is not None
    assert stop[0] == "exhausted"


def test_a_duplicate_reuses_score_and_model_and_stores_nothing() -> None:
    accounts = run_state()
    accounts.report(finished(0, 0.5, own_bytes=100, full_bytes=200, step=7))
    report = accounts.duplicate(3, 0)
    assert (report.number, report.model_id, report.status, report.quality) == (3, "m0", "duplicate", 0.5)
    assert (report.duplicate_of, report.own_bytes, report.step) == (0, 0, 7)
    assert accounts.report(report) == []
    assert len(accounts.best()) == 1


@pytest.mark.parametrize(
    ("kind", "again"),
    [
        ("error", False),
        ("not finite", False),
        ("time limit", False),
        ("build", False),
        ("trainer lost", True),
        ("repository", True),
        ("cancelled", True),
    ],
)
def test_what_failed_by_itself_is_not_tried_again(kind: str, again: bool) -> None:
    accounts = run_state()
    accounts.identify(0, "x")
    accounts.report(failure(0, kind))
    assert ("x" not in accounts.done) is again


def test_labels_of_the_best_are_given_before_they_are_taken() -> None:
    accounts = run_state(keep_best=2)
    hold, release = (lambda m: LabelChange("hold", "best:run", m)), (lambda m: LabelChange("release", "best:run", m))
    assert accounts.report(finished(0, 0.5)) == [hold("m0")]
    assert accounts.report(finished(1, 0.7)) == [hold("m1")]
    assert accounts.report(finished(2, 0.6)) == [hold("m2"), release("m0")]
    assert accounts.report(finished(3, 0.1)) == []
    assert accounts.left([ModelId("m1")]) == [LabelChange("release", "population:run", "m1")]


def test_of_equal_qualities_the_earlier_leads() -> None:
    accounts = run_state(keep_best=1)
    accounts.report(finished(4, 0.5))
    assert accounts.report(finished(5, 0.5)) == []
    assert accounts.report(finished(3, 0.5)) != []
    assert [report.number for report in accounts.best()] == [3, 4, 5]


@settings(max_examples=50, deadline=None)
@given(
    qualities=st.lists(
        st.one_of(st.floats(-1, 1), st.sampled_from([math.nan, math.inf, -math.inf, None])), max_size=12
    ),
    direction=st.sampled_from(["max", "min"]),
)
def test_nan_inf_and_none_never_win_and_labels_end_up_with_the_best(
    qualities: list[float | None], direction: str
) -> None:
    accounts = run_state(objective=f"{direction} q", keep_best=3)
    held: set[str] = set()
    for number, quality in enumerate(qualities):
        for change in accounts.report(finished(number, quality)):  # type: ignore[arg-type]
            (held.add if change.action == "hold" else held.remove)(change.model_id)
    usable = [
        (quality, number) for number, quality in enumerate(qualities) if quality is not None and math.isfinite(quality)
    ]
    sign = -1 if direction == "max" else 1
    expected = [number for _, number in sorted((sign * quality, number) for quality, number in usable)]
    assert [report.number for report in accounts.best()] == expected
    assert held == {f"m{number}" for number in expected[:3]}


def test_recent_seconds_and_frozen_share() -> None:
    accounts = run_state()
    assert accounts.recent_seconds() is None
    accounts.report(finished(0, 0.5, started=10.0, ended=14.0, frozen_share=0.5))
    accounts.report(finished(1, 0.5, started=10.0, ended=12.0))
    assert accounts.recent_seconds() == 3.0
    assert accounts.mean_frozen_share == 0.25


def test_a_trainers_first_evaluation_says_nothing_of_others() -> None:
    """They import Keras and prepare the data; each session, and each trainer that was lost, has another one."""
    accounts = RunState(Objective.parse("max q"), 30, "run", sessions=[0.0, 100.0])
    accounts.ask(Request(number, ModelId(f"m{number}"), Candidate((number,))) for number in range(12))

    def after(number: int, worker: str, started: float, seconds: float) -> float | None:
        accounts.report(finished(number, 0.5, worker=worker, started=started, ended=started + seconds))
        return accounts.recent_seconds()

    assert after(0, "a", 10.0, 20.0) == 20.0  # nothing better is known
    assert after(1, "b", 10.0, 24.0) == 22.0
    assert after(2, "a", 31.0, 2.0) == 2.0
    assert after(3, "b", 35.0, 4.0) == 3.0
    assert after(4, "a", 110.0, 40.0) == 3.0
    assert after(5, "a", 150.0, 6.0) == 4.0
    accounts.report(Report(6, ModelId("m6"), "failed", failure=Failure("trainer lost", "died"), worker="a"))
    assert after(7, "a", 170.0, 30.0) == 4.0
    assert accounts.finished_seconds(20) == [20.0, 24.0, 2.0, 4.0, 40.0, 6.0, 30.0]


def test_seconds_of_a_part_are_in_proportion_to_its_steps() -> None:
    """The last part of a halving search is many times as long as most: their limit would end it."""
    accounts = RunState(Objective.parse("max q"), 30, "run")
    first = Request(0, ModelId("m0"), Candidate((0,)), until_step=3)
    second = replace(first, number=1, model_id=ModelId("m1"), continues=first.model_id, until_step=9)
    whole = Request(2, ModelId("m2"), Candidate((2,)))
    accounts.ask([first, second, whole])
    assert [accounts.part_steps(number) for number in (0, 1, 2)] == [3, 6, None]
    accounts.report(finished(0, 0.5, started=1.0, ended=7.0))
    assert accounts.finished_seconds(20) == [6.0]
    assert accounts.finished_seconds(20, 6) == [12.0]
    accounts.report(finished(1, 0.5, started=10.0, ended=28.0))
    assert accounts.finished_seconds(20, 6) == [12.0, 18.0]
    accounts.report(finished(2, 0.5, started=30.0, ended=35.0))
    assert accounts.finished_seconds(20, 6) == [12.0, 18.0, 5.0]


def test_what_is_rejected_is_no_failure_and_ends_a_run_only_in_a_row() -> None:
    accounts = run_state(evaluations=2, requests=IN_VAIN + 30)
    rejected = Failure("rejected", "too large")
    for number in range(25):
        accounts.report(Report(number, ModelId(f"m{number}"), "failed", failure=rejected))
    assert accounts.stop_reason() is None
    assert accounts.failures_allowed == 20
    accounts.report(finished(25, 0.5))
    for number in range(26, 25 + IN_VAIN):
        accounts.report(Report(number, ModelId(f"m{number}"), "failed", failure=rejected))
    assert accounts.stop_reason() is None
    accounts.report(Report(25 + IN_VAIN, ModelId("last"), "failed", failure=rejected))
    reason = accounts.stop_reason()
    assert reason is not None
    assert reason[0] == "exhausted"
    assert "was rejected" in reason[1]
    assert reason[1].endswith("the last rejection: too large")
    assert (accounts.counts["failed"], accounts.failures) == (25 + IN_VAIN, 0)
