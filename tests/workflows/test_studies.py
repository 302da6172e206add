"""Studies on a real local cluster: exact steps, the same figures as unshared, faults, what is stored and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.search import Grid
from daskevo.tuning import Trajectory
from daskevo_workflows import tune
from daskevo_workflows.problems import refer

pytestmark = pytest.mark.processes


@pytest.fixture
def tuned(tmp_path: Path) -> Callable[..., Path]:
    """Writes the problem's file with other constants."""

    def write(file: str = "tuned.py", **constants: Any) -> Path:
        text = (Path(__file__).parent / "tuned.py").read_text()
        path = tmp_path / file
        set_here = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        path.write_text(text.replace("\n\ndef space()", f"\n\n{set_here}\n\ndef space()", 1))
        return path

    return write


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
        assert figures.training_s < 60
        # Each as if it had been trained by itself.
        for request, report in zip(result.requests, result.reports, strict=False):
            by_number = {one.number: one for one in result.reports}
            assert by_number[request.number].metrics == pytest.approx(alone(problem, study, request, 8), abs=0)
            assert report.status == "finished"
        best = result.best()[0]
        x, y = refer(problem).load().data().validation
        assert np.mean(np.asarray(best.model(x)).argmax(1) == y) == best.quality
        label = f"request:{study._ledger.info.label}"
        stored = repository.snapshots()
        assert stored
        assert all(label in one.labels for one in stored)
    assert repository.verify().clean
