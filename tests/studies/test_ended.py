"""A study that has ended says so from its record: what it would ask, and what it found, without trainers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.search import AsynchronousHalving, Grid, MedianStopping, PopulationBasedTraining, Random, Strategy
from daskevo.tuning import Trajectory
from daskevo_workflows.cli.tune import _say_found
from daskevo_workflows.reports.study_reader import read_study
from daskevo_workflows.stage_training.origin import versions
from daskevo_workflows.studies.ended import ended
from daskevo_workflows.studies.result import StudyResult
from daskevo_workflows.studies.stored_snapshots import described
from tests.studies.pretending import pretended, small_grid
from tests.studies.threads import Fault, ThreadCrew

NOTHING = SimpleNamespace(snapshots=list)


def look(folder: Path, strategy: Strategy, repository: Any = NOTHING, **how: Any) -> StudyResult | None:
    return ended(folder / "run", strategy, small_grid(), repository, seed=0, **{"steps": 16, **how})


@pytest.mark.parametrize(
    "make",
    [
        Grid,
        lambda: AsynchronousHalving(1, 16, 4, candidates=8),
        # Nobody is given up: what trained then would still say so after the study.
        lambda: MedianStopping(4, 16, least=6, candidates=6),
        lambda: PopulationBasedTraining(4, 16, population=5, rounds=1),
    ],
)
def test_what_has_ended_says_what_it_said(make: Callable[[], Strategy], tmp_path: Path, capsys: Any) -> None:
    with pretended(ThreadCrew("t0", "t1"), tmp_path) as study:
        live = study.run(make())
        _say_found(live, err=False)
        summary = live.summary()
    said = capsys.readouterr().out
    before = (tmp_path / "run" / "run.sqlite").read_bytes()
    found = look(tmp_path, make())
    assert found is not None
    assert found.stop == live.stop
    again = found.summary()
    for part in (summary, again):
        part["runtime_s"] = part["best"]["snapshot"] = None
    assert again == summary
    _say_found(found, err=False)
    assert capsys.readouterr().out.splitlines()[1:] == said.splitlines()[1:]
    assert (tmp_path / "run" / "run.sqlite").read_bytes() == before


def test_the_list_has_the_names_of_trials_as_the_report_does(tmp_path: Path, capsys: Any) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        result = study.run(Grid())
        _say_found(result, err=False)
        names = set(result.frame()["trial"])
    first = capsys.readouterr().out.splitlines()[1]
    best = result.best()[0]
    assert best.trial in names
    assert f"  {best.trial}  step 16  " in first
    assert best.trial in read_study(tmp_path / "run").best[0].trials


def test_the_report_names_the_strategies(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        study.evaluate(next(iter(small_grid().enumerate())), 2)
        assert read_study(tmp_path / "run").facts["strategy"] == "none: points were asked for one by one"
        study.run(Grid())
        study.run(Random(), evaluations=2)
    said = read_study(tmp_path / "run").facts["strategy"]
    assert said.startswith("grid: ")
    assert "; random: " in said


def test_the_name_of_the_snapshot(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        study.run(Grid())
        best = study.result().best()[0]
        trajectory = Trajectory("pretended", best.configuration)
    extra = {"trajectory": described(trajectory, 16), "step": 16, "versions": versions()}
    row = SimpleNamespace(name="state", step=16, metrics={}, extra=extra)
    found = look(tmp_path, Grid(), SimpleNamespace(snapshots=lambda: [row]))
    assert found is not None
    assert found.summary()["best"]["snapshot"] == "state"


def test_a_budget(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        study.run(Grid(), evaluations=5)
    found = look(tmp_path, Grid(), evaluations=5)
    assert found is not None
    assert found.stop == ("finished", "5 evaluations finished")
    assert look(tmp_path, Grid(), evaluations=4) is not None
    assert look(tmp_path, Grid(), evaluations=6) is None
    assert look(tmp_path, Grid()) is None


def test_another_strategy_has_all_left_to_do(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        study.run(Grid())
    assert look(tmp_path, Grid()) is not None
    assert look(tmp_path, Random()) is None
    assert look(tmp_path, Grid(), steps=8) is None


def test_failures_count(tmp_path: Path) -> None:
    """The first is said in the progress: which trial, and why."""
    bad = small_grid().configuration(next(iter(small_grid().enumerate())))
    said: list[str] = []

    def breaks(trajectory: Trajectory, step: int) -> None:
        if trajectory.configuration.key(step) == bad.key(16):
            raise Fault("error")

    with pretended(ThreadCrew("t0", before_step=breaks), tmp_path) as study:
        live = study.run(Grid(), on_progress=lambda progress: said.append(progress.first_failure))
    found = look(tmp_path, Grid())
    assert found is not None
    assert found.stop == live.stop
    (failed,) = [report for report in found.reports if report.status == "failed"]
    assert failed.failure is not None
    assert (said[0], said[-1]) == ("", f"trial {failed.number} failed: {failed.failure.message}")


@pytest.mark.parametrize("how", ["interrupted", "error", "pending"])
def test_what_was_cut_short_goes_on(how: str, tmp_path: Path) -> None:
    study = pretended(ThreadCrew("t0"), tmp_path)
    study.run(Grid(), evaluations=5 if how == "pending" else None)
    if how == "pending":
        study.submit(list(small_grid().enumerate())[7], 16)
    study.close("closed" if how == "pending" else how)
    found = look(tmp_path, Grid())
    assert found is None
