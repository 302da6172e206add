"""What a study finds of an earlier one: of other versions nothing, of several snapshots of a state the last."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.errors import SnapshotGone
from daskevo.tuning import Configuration, Constant, Run, SearchPlan, Trajectory
from daskevo.types import Objective
from daskevo_workflows.problems import refer
from daskevo_workflows.stage_training import begin
from daskevo_workflows.stage_training.origin import versions
from daskevo_workflows.studies import held_training
from daskevo_workflows.studies.assignment import Setting, StageAssignment
from daskevo_workflows.studies.stored_snapshots import described, learn

LOOPED = Path(__file__).parents[1] / "workflows" / "looped.py"
ALONG = Trajectory("m", Configuration({"learning_rate": Constant(0.1)}, unit="epoch"))
OTHER = {**versions(), "numpy": "1.0"}


def stored(name: str, step: int, made_by: Any) -> Any:
    extra = {"trajectory": described(ALONG, step), "step": step, "versions": made_by}
    return SimpleNamespace(name=name, step=step, metrics={"loss": float(step)}, extra=extra)


def test_what_other_versions_made_is_passed_over_and_counted() -> None:
    plan = SearchPlan()
    summaries = [
        stored("damaged", 4, versions()),
        stored("again", 4, versions()),
        stored("other", 6, OTHER),
        stored("nobody's", 8, None),
    ]
    assert learn(plan, summaries, "m") == (2, 2)
    (node,) = plan.nodes
    assert node.snapshots == {4: "again"}
    assert set(node.metrics) == {4}


@pytest.fixture
def empty() -> Iterator[None]:
    held_training.drop()
    yield
    held_training.drop()


def test_a_trainer_goes_on_from_no_snapshot_of_other_versions(empty: None) -> None:
    """Whether it builds the training, or has it: the step is trained again, and no trial fails."""
    problem = refer(LOOPED)
    setting = Setting(problem, None, 0, Objective.parse("min loss"), "request:r", "cache:r")  # type: ignore[arg-type]
    assignment = StageAssignment("key", "topic", Run("w", "t", ALONG, 4, "snap", False, ((8, True),), 1.0), setting)
    training = begin(problem.load(), ALONG, problem.load().data(), seed=0)
    training.advance(4, lambda step: True)
    kept = training.snapshot()
    of_others = dataclasses.replace(kept, extra={**kept.extra, "versions": OTHER})
    for _ in range(2):
        with pytest.raises(SnapshotGone, match=r"other versions \(numpy 1\.0, here"):
            held_training.take(assignment, of_others)
        found, _ = held_training.take(assignment, kept)
        assert found.step == 4
        found.advance(5, lambda step: True)
