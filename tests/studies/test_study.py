"""Studies on trainers that train nothing: any strategy, exact steps, several studies, going on after an end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from daskevo.errors import InvalidInput, RunError, RunFolderUnusable, RunMismatch, TrialFailed
from daskevo.search import (
    AsynchronousHalving,
    Grid,
    Hyperband,
    MedianStopping,
    PopulationBasedTraining,
    Random,
    Request,
    Strategy,
    SuccessiveHalving,
)
from daskevo.tuning import Constant, Run, Trajectory, count_steps, grid
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.strategy_driver import StudyProgress
from daskevo_workflows.studies.study import Study
from tests.studies.pretending import constants, pretended, small_grid
from tests.studies.threads import Fault, ThreadCrew, figures


def trajectory(study: Study, request: Request) -> Trajectory:
    return Trajectory("pretended", study.line(request).trial.configuration)


def _wait(event: threading.Event) -> None:
    event.wait(0.5)


def test_a_grid_trains_each_step_once(tmp_path: Path) -> None:
    crew = ThreadCrew("t0", "t1")
    with pretended(crew, tmp_path) as study:
        before = study.forecast()
        result = study.run(Grid())
        (best,) = result.best()
        assert best.quality == min(figures(trajectory(study, request), 16)["loss"] for request in result.requests)
        assert best.snapshot in crew.store
        assert study.merge_rate() == before.merge_rate
        assert study.forecast().steps_to_train == 0
    assert result.stop[0] == "exhausted"
    assert before.total_steps == 12 * 16
    assert before.unique_steps == before.steps_to_train == crew.trained.total()
    assert set(crew.trained.values()) == {1}
    line = result.summary()
    assert list(line) == [
        "trials",
        "total_steps",
        "unique_steps",
        "trained_steps",
        "merge_rate",
        "saving",
        "runtime_s",
        "best",
    ]
    assert line["trials"] == 12
    assert line["total_steps"] == 192
    assert line["unique_steps"] == line["trained_steps"] == before.unique_steps
    assert line["merge_rate"] == line["saving"] == before.merge_rate > 1.5


class SlowStore(ThreadCrew):
    """A crew whose states are stored long after they were scored."""

    def put(self, run: Run, step: int, state: str, metrics: Mapping[str, float] | None) -> str:
        time.sleep(0.3)
        return super().put(run, step, state, metrics)


def test_what_was_answered_is_stored_before_the_study_ends(tmp_path: Path) -> None:
    crew = SlowStore("t0")
    with pretended(crew, tmp_path) as study:
        point = {"learning_rate": Constant(0.1), "batch_size": Constant(32)}
        study.evaluate(point, step=4)
        (best,) = study.result().best()
        assert best.snapshot in crew.store
        study.evaluate(point, step=8)
    assert len(crew.store) == 2


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda: SuccessiveHalving(1, 16, 4, candidates=12, rounds=1), 12 + 3 * 3 + 12),
        (lambda: Hyperband(1, 4, 2, rounds=1), None),
        (lambda: AsynchronousHalving(1, 16, 4, candidates=12), None),
        (lambda: MedianStopping(4, 16, least=12, candidates=12), 12 * 16),
        (lambda: Random(), 12 * 16),
    ],
    ids=["halving", "hyperband", "asha", "median", "random"],
)
def test_strategies_lead_and_continue_what_they_promote(
    make: Callable[[], Strategy], steps: int | None, tmp_path: Path
) -> None:
    crew = ThreadCrew("t0", "t1")
    with pretended(crew, tmp_path) as study:
        result = study.run(make(), evaluations=60)
        for request in result.requests:
            if request.continues is not None:
                assert study.line(request).start > 0
    assert set(crew.trained.values()) == {1}
    assert result.figures.trained_steps == crew.trained.total() >= result.figures.unique_steps
    if steps is not None:
        assert result.figures.total_steps == steps
    assert result.figures.trained_steps < result.figures.total_steps


def test_clones_go_on_from_their_source(tmp_path: Path) -> None:
    crew = ThreadCrew("t0", "t1")
    with pretended(crew, tmp_path, constants()) as study:
        result = study.run(PopulationBasedTraining(2, 8, population=6, share=0.25, rounds=1))
        clones = [request for request in result.requests if request.parent is not None]
        assert clones
        (best,) = result.best()
        further = study.evaluate(best, 12)
        assert further == figures(trajectory(study, study.result().requests[-1]), 12)
    assert set(crew.trained.values()) == {1}


def test_points_are_evaluated_extended_and_awaited(tmp_path: Path) -> None:
    space, crew = small_grid(), ThreadCrew("t0")
    point = {"learning_rate": Constant(0.1), "batch_size": Constant(32)}
    with pretended(crew, tmp_path) as study:
        some = Trajectory("pretended", space.configuration(next(space.enumerate())))
        assert study.evaluate(point, step=6) == figures(some, 6)

        async def both() -> None:
            futures = [asyncio.wrap_future(study.submit(point, step)) for step in (8, 16)]
            assert await asyncio.gather(*futures) == [figures(some, 8), figures(some, 16)]

        asyncio.run(both())
        assert study.figures().trials == 1
        assert study.figures().total_steps == study.figures().trained_steps == 16
        # A strategy on the same study finds what is there; its trials part at step 4, where nothing was stored.
        trained = study.run(Grid()).figures.trained_steps
        every = [(Trajectory("pretended", space.configuration(candidate)), 16) for candidate in space.enumerate()]
        assert trained == count_steps(every).unique + 4
        with pytest.raises(InvalidInput):
            study.submit({"learning_rate": Constant(0.7), "batch_size": Constant(32)}, 4)
        with pytest.raises(InvalidInput):
            study.submit(17, 4)  # type: ignore[arg-type]


def test_a_request_that_is_taken_back_is_noted_and_costs_nobody_else(tmp_path: Path) -> None:
    came, go_on = threading.Event(), threading.Event()

    def waits(trajectory: Trajectory, step: int) -> None:
        came.set()
        assert go_on.wait(60)

    crew = ThreadCrew("t0", before_step=waits)
    candidates = list(small_grid().enumerate())
    with pretended(crew, tmp_path) as study:
        first, other = study.submit(candidates[0], 16), study.submit(candidates[-1], 4)
        assert came.wait(60)
        assert first.cancel()
        crew.settle()
        go_on.set()
        other.result(60)
        statuses = dict(zip(study.result().frame()["number"], study.result().frame()["status"], strict=True))
    assert statuses == {0: "failed", 1: "finished"}
    assert crew.trained.total() < 10


def test_what_was_answered_is_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is woken, and asks, before anything else is done with an answer."""
    asked = threading.Event()
    monkeypatch.setattr(Controller, "_take_back", lambda controller, waiter, future: asked.wait(60))
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        future = study.submit(next(small_grid().enumerate()), 4)
        assert future.result(60)
        post = study.controller.post

        def asks(function: Callable[[], object]) -> None:
            post(function)
            asked.set()

        monkeypatch.setattr(study.controller, "post", asks)
        assert study.figures().trials == 1
        assert len(study.result().reports) == 1


def test_a_study_that_was_closed_goes_on_where_it_was(tmp_path: Path) -> None:
    """The store stays, as a repository does; the record says what was asked and answered."""
    store: dict[str, str] = {}
    seen: list[StudyProgress] = []

    class Enough(Exception):
        pass

    def stops(progress: StudyProgress) -> None:
        seen.append(progress)
        if progress.finished >= 4:
            raise Enough

    first = ThreadCrew("t0", store=store)
    with pytest.raises(Enough), pretended(first, tmp_path) as study:
        study.run(SuccessiveHalving(1, 16, 4, candidates=12, rounds=1), at_once=2, on_progress=stops)
    second = ThreadCrew("t0", store=store)
    with pretended(second, tmp_path) as study:
        result = study.run(SuccessiveHalving(1, 16, 4, candidates=12, rounds=1), at_once=2)
    whole = ThreadCrew("t0")
    with pretended(whole, tmp_path / "whole") as study:
        expected = study.run(SuccessiveHalving(1, 16, 4, candidates=12, rounds=1), at_once=2)
    assert [report.metrics for report in result.reports] == [report.metrics for report in expected.reports]
    assert [request.candidate for request in result.requests] == [request.candidate for request in expected.requests]
    assert len(seen) >= 2
    assert result.figures.trained_steps == first.trained.total() + second.trained.total()
    assert result.figures.total_steps == expected.figures.total_steps
    # Over already: nothing more is asked.
    third = ThreadCrew("t0")
    with pretended(third, tmp_path) as study:
        again = study.run(SuccessiveHalving(1, 16, 4, candidates=12, rounds=1), at_once=2)
    assert not third.runs
    assert again.summary()["best"]["quality"] == expected.summary()["best"]["quality"]


def test_two_studies_of_one_controller_share_what_is_under_way(tmp_path: Path) -> None:
    crew = ThreadCrew("t0", "t1")
    with Controller(crew) as controller:
        studies = [pretended(controller, tmp_path, name=name) for name in ("one", "two")]
        with studies[0], studies[1]:
            results: list[object] = []
            threads = [
                threading.Thread(target=lambda study=study: results.append(study.run(Grid()))) for study in studies
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert len(results) == 2
            both = [study.figures() for study in studies]
    assert set(crew.trained.values()) == {1}
    assert sum(each.trained_steps for each in both) == crew.trained.total() == both[0].unique_steps


def test_trials_that_fail_are_told_and_others_go_on(tmp_path: Path) -> None:
    bad = small_grid().configuration(list(small_grid().enumerate())[-1])

    def breaks(trajectory: Trajectory, step: int) -> None:
        if trajectory.configuration.key(step) == bad.key(16):
            raise Fault("error")

    crew = ThreadCrew("t0", before_step=breaks)
    with pretended(crew, tmp_path) as study:
        result = study.run(Grid())
        assert sorted(report.status for report in result.reports) == ["failed", *["finished"] * 11]
        with pytest.raises(TrialFailed):
            study.evaluate(list(small_grid().enumerate())[-1], 16)
    assert result.frame()["reason"].notna().sum() == 1


def test_a_study_of_another_seed_or_problem_is_refused(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path), pytest.raises(RunFolderUnusable, match="being carried on"):
        pretended(ThreadCrew("t0"), tmp_path)
    with pytest.raises(RunMismatch, match="seed: 0 there, 1 here"):
        pretended(ThreadCrew("t0"), tmp_path, seed=1)
    with pytest.raises(RunMismatch, match="its source has changed"):
        pretended(ThreadCrew("t0"), tmp_path, problem={"name": "pretended", "content": "2"})


def test_what_can_t_be_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    crew = ThreadCrew("t0")
    with pretended(crew, tmp_path, steps=None) as study:
        with pytest.raises(InvalidInput, match="how many steps"):
            study.run(Grid())
        for wrong in ({"at_once": 0}, {"at_once": "4"}, {"evaluations": 1.5}, {"steps": -3}):
            (name,) = wrong
            with pytest.raises(InvalidInput, match=f"{name}=.*use a whole number from 1"):
                study.run(Grid(), **wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="is no strategy"):
            study.run(Grid)  # type: ignore[arg-type]
        with pytest.raises(RunError, match="no trial"):
            study.result().best()
    space = grid(learning_rate=[Constant(0.1)], bad=["yes"], unit="epoch")
    with pretended(crew, tmp_path, space, name="other") as study, pytest.raises(InvalidInput, match="takes no 'bad'"):
        study.run(Grid())
    assert not crew.runs


def test_a_time_limit_leaves_what_is_pending_for_later(tmp_path: Path) -> None:
    go_on = threading.Event()
    crew = ThreadCrew("t0", before_step=lambda trajectory, step: _wait(go_on))
    with pretended(crew, tmp_path) as study:
        result = study.run(Grid(), time_limit_s=0.2)
        go_on.set()
        assert result.stop[0] == "time limit"
        assert len(result.requests) == 12
        assert len(result.reports) < 12
        assert study.run(Grid()).stop[0] == "exhausted"
    assert crew.trained.total() >= 75
