"""What a study has asked for, trained and saved: in steps, which are exact, and in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from daskevo.tuning import StepCount, Trajectory, count_steps
from daskevo.types import JSON


@dataclass(frozen=True, slots=True)
class Figures:
    """A study's figures at one moment.

    Parameters
    ----------
    trials:
        That were answered; one that was continued counts once.
    total_steps:
        Of these trials, each trained by itself.
    unique_steps:
        Of these, with equal steps counted once.
    trained_steps:
        That trainers trained for this study: less than `unique_steps` where an earlier study left snapshots, more
        where something was trained again, or for trials that were not answered.
    training_s, start_s, scoring_s:
        Seconds of all trainers: steps, starts (building, loading, first steps), scoring.
    duplicates:
        States that another process trained and stored at the same time, as far as that was seen.
    """

    trials: int
    total_steps: int
    unique_steps: int
    trained_steps: int
    training_s: float = 0.0
    start_s: float = 0.0
    scoring_s: float = 0.0
    duplicates: int = 0

    @property
    def merge_rate(self) -> float:
        """How many times the total is of the unique steps."""
        return StepCount(self.total_steps, self.unique_steps).merge_rate

    @property
    def saving(self) -> float | None:
        """How many times the total is of the trained steps; None if nothing was trained."""
        return self.total_steps / self.trained_steps if self.trained_steps else None


@dataclass
class Accounts:
    """Counts for one study."""

    trained_steps: int = 0
    training_s: float = 0.0
    start_s: float = 0.0
    scoring_s: float = 0.0
    duplicates: int = 0
    _ends: dict[str, tuple[Trajectory, int]] = field(default_factory=dict)

    def answered(self, trial: str, trajectory: Trajectory, step: int) -> None:
        """Take in that a trial was answered at a step; the last of its steps counts."""
        if step > self._ends.get(trial, (trajectory, 0))[1]:
            self._ends[trial] = trajectory, step

    def stage(self, steps: int, seconds: Mapping[str, float]) -> None:
        """Take in that some steps were trained, in seconds by phase."""
        self.trained_steps += steps
        self.training_s += seconds.get("training", 0.0)
        self.scoring_s += seconds.get("scoring", 0.0)
        self.start_s += sum(seconds.get(phase, 0.0) for phase in ("build", "load", "first_step"))

    def figures(self) -> Figures:
        """Return the figures of this moment."""
        total, unique = count_steps(self._ends.values())
        return Figures(
            len(self._ends),
            total,
            unique,
            self.trained_steps,
            self.training_s,
            self.start_s,
            self.scoring_s,
            self.duplicates,
        )


def summary(figures: Figures, runtime_s: float, best: Mapping[str, JSON] | None) -> dict[str, Any]:
    """Return what ``daskevo tune --json`` ends with."""
    return {
        "trials": figures.trials,
        "total_steps": figures.total_steps,
        "unique_steps": figures.unique_steps,
        "trained_steps": figures.trained_steps,
        "merge_rate": figures.merge_rate,
        "saving": figures.saving,
        "runtime_s": runtime_s,
        "best": None if best is None else dict(best),
    }
