"""Studies on a real local cluster: exact steps, the same figures as unshared, faults, what is stored and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import InvalidInput, InvalidProblem, RunError, RunMismatch
from daskevo.search import AsynchronousHalving, Grid, SuccessiveHalving
from daskevo.tuning import Constant, MultiStep, Trajectory, grid
from daskevo_workflows import nas, tune
from daskevo_workflows.problems import refer
from daskevo_workflows.problems import reference as references
from daskevo_workflows.studies import held_training

pytestmark = pytest.mark.processes


@pytest.fixture
def loops(client: Any, tmp_path: Path) -> Any:
    """A repository for the problem with a training loop of its own."""
    return daskevo.open(tmp_path / "loops", "looped", client=client, objective="min loss", shards=8)


def alone(problem: Path, study: tune.Study, request: Any, step: int) -> dict[str, float]:
    """Train one trial by itself, from its first step to its last, in this process."""
    from daskevo_workflows.stage_training import begin

    reference = refer(problem)
    trajectory = Trajectory(study.origin, study.line(request).trial.configuration)
    training = begin(reference.load(), trajectory, reference.load().data(), seed=study.seed)
    training.advance(step, lambda reached: True)
    return training.score()


def test_a_grid_is_trained_as_far_as_it_differs(tuned: Callable[..., Path], repository: Any, tmp_path: Path) -> None:
    problem = tuned()
    with tune.study(problem, repository=repository, run=tmp_path / "run", seed=3) as study:
        forecast = study.forecast()
        assert (forecast.total_steps, forecast.unique_steps) == (64, 34)
        result = study.run(Grid())
        figures = result.figures
        assert (figures.total_steps, figures.unique_steps, figures.trained_steps) == (64, 34, 34)
        assert 0 < figures.training_s < 600
        # Each as if it had been trained by itself.
        by_number = {report.number: report for report in result.reports}
        for request in result.requests[1::3]:
            assert by_number[request.number].metrics == alone(problem, study, request, 8)
        best = result.best()[0]
        x, y = refer(problem).load().data().validation
        assert np.mean(np.asarray(best.model(x)).argmax(1) == y) == best.quality
        label = study._ledger.info.label
    # Where trials parted, nobody needs a snapshot any more.
    stored = repository.snapshots()
    assert {one.labels for one in stored if one.step == 8} == {(f"request:{label}",)}
    assert {one.labels for one in stored if one.step < 8} == {(f"cache:{label}",)}
    assert repository.verify().clean


@pytest.mark.parametrize(
    ("fault", "reason"),
    [("error", "no such rate"), ("nan", "not a finite number"), ("memory", "out of memory on trainer")],
)
def test_a_stage_that_fails_fails_its_trials_and_no_others(
    fault: str, reason: str, tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    with tune.study(tuned(FAULT=fault), repository=repository, run=tmp_path / "run") as study:
        frame = study.run(Grid()).frame()
    assert sorted(frame["status"]) == ["failed"] * 2 + ["finished"] * 6
    assert all(reason in why for why in frame[frame["status"] == "failed"]["reason"])


@pytest.mark.long
def test_a_trainer_that_dies_costs_what_was_not_stored(
    tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    (tmp_path / "marks").mkdir()
    problem = tuned(FAULT="die once", MARKS=str(tmp_path / "marks"))
    with tune.study(problem, repository=repository, run=tmp_path / "run") as study:
        result = study.run(Grid())
    assert all(report.status == "finished" for report in result.reports)
    assert (tmp_path / "marks" / "died").exists()
    # The steps until the score under which it died, from where the trials parted, at most on both trainers.
    assert 34 <= result.figures.trained_steps <= 34 + 8


@pytest.mark.long
def test_what_is_stored_is_not_trained_again_and_what_is_gone_is(
    tuned: Callable[..., Path], client: Any, loops: Any, tmp_path: Path
) -> None:
    problem = tuned("looped.py")
    with tune.study(problem, repository=loops, run=tmp_path / "one") as study:
        first = study.run(Grid())
    with tune.study(problem, repository=loops, run=tmp_path / "two") as study:
        assert study.forecast().steps_to_train == 0
        second = study.run(Grid())
        assert second.figures.trained_steps == 0
        assert second.summary()["saving"] is None
        assert [one.quality for one in second.best(4)] == [one.quality for one in first.best(4)]
    with tune.study(problem, repository=loops, run=tmp_path / "other", objective="max gain") as study:
        result = study.run(Grid())
        assert {report.status for report in result.reports} == {"failed"}
        assert "no finite number 'gain' among the metrics stored of it: loss" in result.frame()["reason"][0]
    point = {"learning_rate": MultiStep(0.1, (3,), 0.5)}
    space = grid(learning_rate=[point["learning_rate"], Constant(0.05)], unit="epoch")
    with tune.study(problem, space, repository=loops, run=tmp_path / "three") as study:
        # Parts from the others at step 3, and the last state stored before is that of step 2.
        study.evaluate(point, 4)
        assert study.figures().trained_steps == 2
        # Answered as soon as it is scored, stored a little later.
        while study.controller.call(lambda: bool(study.controller.scheduler.under_way.works)):
            time.sleep(0.02)
        for stored in loops.snapshots():
            if stored.step == 4:
                for label in stored.labels:
                    loops.release(stored.name, label)
        # Nor do trainers have it in memory any more.
        workers = workers_of(client).items()
        client.run(held_training.drop, workers=[a for a, worker in workers if "evaluation" in worker["resources"]])
        study.evaluate(point, 6)
        # From step 3, where it parted from the others.
        assert study.figures().trained_steps == 2 + 3
        kinds = [event.kind for event in study.controller.call(study._ledger.record.events)]
        assert "snapshot gone" in kinds


def test_promoted_trials_go_on_from_their_snapshots(tuned: Callable[..., Path], loops: Any, tmp_path: Path) -> None:
    with tune.study(tuned("looped.py"), repository=loops, run=tmp_path / "run") as study:
        halving = study.run(SuccessiveHalving(2, 8, 2, candidates=4, rounds=1))
        assert halving.figures.trained_steps <= 20
        # Another strategy on the same study finds what there is.
        asha = study.run(AsynchronousHalving(2, 8, 2, candidates=4))
        assert asha.stop[0] in ("exhausted", "finished")
        assert asha.figures.trained_steps <= 20
        assert set(study.evaluate(asha.best()[0], 12)) == {"loss"}


@pytest.mark.long
def test_what_a_promoted_trial_goes_on_with_is_what_it_had(
    tuned: Callable[..., Path], loops: Any, tmp_path: Path
) -> None:
    """Kind 39 of docs/failures.md: its first batch has the loss that it has in one piece, and no step is done twice."""
    marks, uncut = tmp_path / "marks", tmp_path / "uncut"
    marks.mkdir()
    uncut.mkdir()
    space = grid(learning_rate=[Constant(rate) for rate in (0.02, 0.05, 0.1, 0.2)], unit="epoch")
    with tune.study(tuned("looped.py", MARKS=str(marks)), space, repository=loops, run=tmp_path / "run") as study:
        result = study.run(SuccessiveHalving(2, 8, 2, candidates=4, rounds=1))
        risen = [request for request in result.requests if request.continues is not None]
        assert len(risen) == 2 + 1
        problem = tuned("looped.py", MARKS=str(uncut))
        for request in result.requests[:4]:
            alone(problem, study, request, 8)
        best = result.best()[0]
        assert best.step == 8
        snapshot = best.snapshot
        quality, again = best.quality, study.evaluate(best, 8)
        assert again == {"loss": quality}

    def steps(folder: Path) -> dict[tuple[float, int], float]:
        rows = [json.loads(line) for line in (folder / "steps").read_text().splitlines()]
        found = {(rate, step): loss for rate, step, loss in rows}
        assert len(found) == len(rows)  # none twice: what a rung adds is the difference
        return found

    trained, whole = steps(marks), steps(uncut)
    assert len(trained) == result.figures.trained_steps == 4 * 2 + 2 * 2 + 4
    assert trained == {place: whole[place] for place in trained}
    # Its lineage leads through the states at the ends of the rungs.
    by_name = {stored.name: stored for stored in loops.snapshots()}
    assert [by_name[record.model_id].step for record in loops.lineage(snapshot)] == [8, 4, 2]


NONE = {0.01: float("nan"), 0.02: float("inf"), 0.03: float("-inf"), 0.04: None, 0.05: "bad", 0.06: "raise"}
"""Learning rates, and what comes of them instead of a loss."""


@pytest.mark.parametrize("direction", ["min", "max"])
def test_what_is_no_finite_number_is_never_the_best(
    direction: str, tuned: Callable[..., Path], client: Any, tmp_path: Path
) -> None:
    objective = f"{direction} loss"
    repository = daskevo.open(tmp_path / "loops", "looped", client=client, objective=objective, shards=8)
    problem = tuned("looped.py", FAULTS=json.dumps(list(NONE.items())), objective=objective)

    def found(run: str, rates: list[float]) -> tune.StudyResult:
        space = grid(learning_rate=[Constant(rate) for rate in rates], unit="epoch")
        with tune.study(problem, space, repository=repository, run=tmp_path / run) as study:
            return study.run(Grid(), steps=1)

    result = found("run", [*NONE, 0.1, 0.2])
    frame = result.frame()
    assert list(frame["status"]) == ["failed"] * len(NONE) + ["finished"] * 2
    assert all(frame["reason"][: len(NONE)])
    pick = min if direction == "min" else max
    assert result.best()[0].quality == pick(frame["quality"][len(NONE) :])
    assert len(result.best(10)) == 2
    nothing = found("nothing", list(NONE))
    with pytest.raises(RunError, match=r"no trial of the study in .*nothing has finished"):
        nothing.best()


def test_bad_input_is_refused_before_anything_is_trained(
    tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    (tmp_path / "marks").mkdir()
    problem = tuned(MARKS=str(tmp_path / "marks"))
    rates = [Constant(0.1)]
    for number, (more, words) in enumerate(
        [
            ({"batch_size": [Constant(0)]}, "batch"),
            ({"batch_size": [MultiStep(32, (4,), 4)]}, "64"),
            ({"batch_size": [Constant(12.5)]}, "batch"),
            ({"warmth": [Constant(1.0)]}, "warmth"),
        ]
    ):
        space = grid(learning_rate=rates, unit="epoch", **more)
        with tune.study(problem, space, repository=repository, run=tmp_path / f"run{number}") as study:
            with pytest.raises(InvalidInput, match=words):
                study.run(Grid())
            with pytest.raises(InvalidInput, match=words):
                study.submit(next(space.enumerate()), 8)
    assert not (tmp_path / "marks" / "scores").exists()
    with pytest.raises(InvalidInput, match="seed=-1"):
        tune.study(problem, repository=repository, run=tmp_path / "bad", seed=-1)
    with pytest.raises(InvalidProblem, match="daskevo tune"):
        nas.search("digits-lr", repository=repository, run=tmp_path / "bad")


@pytest.mark.parametrize("file", ["tuned.py", "looped.py"])
def test_a_study_goes_on_with_its_own_problem_data_and_seed_only(
    file: str, tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    (tmp_path / "marks").mkdir()
    problem = tuned(file, MARKS=str(tmp_path / "marks"))
    tune.study(problem, repository=repository, run=tmp_path / "run").close()
    with pytest.raises(RunMismatch, match="seed: 0 there, 1 here"):
        tune.study(problem, repository=repository, run=tmp_path / "run", seed=1)
    with pytest.raises(RunMismatch, match="its source has changed"):
        tune.study(tuned(file, epochs=9), repository=repository, run=tmp_path / "run")
    (tmp_path / "marks" / "other data").touch()
    references._data.clear()
    with pytest.raises(RunMismatch, match=r"data: .* there, .* here"):
        tune.study(tuned(file, MARKS=str(tmp_path / "marks")), repository=repository, run=tmp_path / "run")


@pytest.mark.long
def test_copies_against_failures_change_nothing_and_go_when_they_are_superseded(
    tuned: Callable[..., Path], loops: Any, tmp_path: Path
) -> None:
    problem, repository = tuned("looped.py"), loops
    with tune.study(problem, repository=repository, run=tmp_path / "run", copy_every_s=1e-6) as study:
        # Everything at once, on two trainers: 2 epochs that all share, 2 more, and so on.
        result = study.run(Grid())
        assert result.figures.trained_steps == 8 + 4 + 6 + 2
        for request, report in zip(result.requests, sorted(result.reports, key=lambda one: one.number), strict=True):
            assert report.metrics == alone(problem, study, request, 8)
        copies = study.controller.call(lambda: study._ledger.record.events("copy"))
    assert len(copies) >= 6
    assert {stored.step for stored in repository.snapshots()} == {2, 4, 6, 8}
    states = [stored.extra["trajectory"]["key"] for stored in repository.snapshots()]
    assert len(set(states)) == len(states) == 3 + 4


@pytest.mark.long
def test_two_studies_of_one_client_hear_each_their_own(tuned: Callable[..., Path], client: Any, tmp_path: Path) -> None:
    """Each with a controller of its own, at the same time, on the same trainers."""
    problem = tuned("looped.py", SLEEP_S=0.05)
    repository = daskevo.open(tmp_path / "repository", "looped", client=client, objective="min loss", shards=8)
    with (
        tune.study(problem, repository=repository, run=tmp_path / "one") as one,
        tune.study(problem, repository=repository, run=tmp_path / "two", seed=1) as two,
    ):
        point = {"learning_rate": Constant(0.1)}
        futures = [study.submit(point, 8) for study in (one, two)]
        first, second = (future.result(120) for future in futures)
    assert first != second
