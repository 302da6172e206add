"""Studies whose process must be done at some moment: what is being trained is stored, and gone on with."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import Grid
from daskevo.tuning import Trajectory
from daskevo_workflows.execution.deadline import Deadline
from daskevo_workflows.studies import strategy_driver
from daskevo_workflows.studies.closing_copies import time_to_copy
from daskevo_workflows.studies.stage_commands import Orders
from tests.studies.pretending import pretended
from tests.studies.test_keeping import Crew, Store, open_study
from tests.studies.threads import ThreadCrew


def test_a_copy_is_kept_after_the_next_step_and_training_goes_on() -> None:
    orders = Orders(0, [(8, True)])
    assert orders.passed(1)
    assert orders.copy() == 1
    assert not orders.passed(2)
    assert not orders.stop_at(2)
    assert not orders.halted
    assert orders.passed(3)


class Stops:
    """Has trainings wait after their second step until copies are asked for, and then after one more until told."""

    def __init__(self) -> None:
        self.came, self.asked, self.over = threading.Event(), threading.Event(), threading.Event()
        self.steps_after = 0

    def __call__(self, trajectory: Trajectory, step: int) -> None:
        if step < 2 or self.over.is_set():
            return
        self.came.set()
        assert self.asked.wait(60)
        self.steps_after += 1
        if self.steps_after > 1:
            assert self.over.wait(60)

    def deadline(self) -> float | None:
        return time.time() + 119 if self.came.is_set() else None


def test_what_is_trained_is_stored_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategy_driver, "grace_s", lambda: 120.0)
    store, stops = Store(), Stops()
    study, crew = open_study(store, tmp_path, before_step=stops)
    copied: list[str] = []

    class Asked(Crew):
        def copy(self, work: str) -> bool:
            copied.append(work)
            done = super().copy(work)
            stops.asked.set()
            return done

    crew.__class__ = Asked
    with study:
        result = study.run(Grid(), deadline=stops.deadline)
        crew.settle()  # it was told that nobody waits any more
        stops.over.set()
    assert result.stop[0] == "walltime"
    assert not result.reports
    assert copied
    kept = {row.step for row in store.rows.values()}
    assert kept

    study, crew = open_study(store, tmp_path)
    with study:
        steps = study.forecast().unique_steps
        result = study.run(Grid())
    assert result.stop[0] == "exhausted"
    assert len(result.reports) == 12
    # From the copy on, not from the beginning.
    assert crew.runs[0].start in kept
    assert crew.trained.total() == steps - crew.runs[0].start < steps


def test_what_is_no_deadline_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    crew = ThreadCrew("t0")
    with pretended(crew, tmp_path) as study, pytest.raises(InvalidInput, match="seconds since the epoch"):
        study.run(Grid(), deadline="soon")  # type: ignore[arg-type]
    assert not crew.runs


def test_copies_are_begun_a_step_before_the_end(tmp_path: Path) -> None:
    gate, came = threading.Event(), threading.Event()

    def waits(trajectory: Trajectory, step: int) -> None:
        came.set()
        assert gate.wait(60)

    with pretended(ThreadCrew("t0", before_step=waits), tmp_path) as study:
        controller, deadline = study.controller, Deadline(1000.0, 20.0)
        assert not time_to_copy(controller, "pretended", deadline, 979.0)
        study.submit(next(study.space.enumerate()), 4)  # type: ignore[attr-defined]
        assert came.wait(60)
        # A step is taken to last a second where none was measured.
        assert time_to_copy(controller, "pretended", deadline, 979.0)
        assert not time_to_copy(controller, "pretended", deadline, 970.0)
        gate.set()
