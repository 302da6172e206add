"""What comes before the first step: the same evaluations by Keras' own `fit` and by `fast_fit`, in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.shared.timing import median
from daskevo_workflows.measurements.tables import FigureTable, figure
from daskevo_workflows.problems.protocol import Problem

PHASES = ("build", "compile", "first_step", "training", "scoring")


@dataclass(frozen=True)
class Steps:
    """Seconds by phase of each evaluation, both ways; qualities of both. # each list: one per candidate"""

    problem: str
    plain: Sequence[dict[str, float]]
    fast: Sequence[dict[str, float]]
    qualities: Sequence[tuple[float, float]]

    @property
    def speedup(self) -> float:
        """Median over the candidates of plain evaluation / fast evaluation."""
        return median([sum(a.values()) / sum(b.values()) for a, b in zip(self.plain, self.fast, strict=True)])

    def table(self) -> FigureTable:
        rows = []
        for phase in (*PHASES, "evaluation"):
            both = [[sum(one.values()) if phase == "evaluation" else one[phase] for one in way] for way in self.ways]
            plain, fast = map(median, both)
            rows.append((phase.replace("_", " "), figure(plain), figure(fast), figure(plain / fast if fast else None)))
        difference = max(abs(a - b) for a, b in self.qualities)
        notes = (
            f"{len(self.fast)} candidates of {self.problem}, each both ways in turn, the same seeds; medians. The "
            f"first step includes its graph. An evaluation is {self.speedup:.2f} times as fast (median of the pairs); "
            f"the two qualities of a candidate differ by at most {difference:.1g}.",
        )
        return FigureTable(
            "An evaluation by plain fit and by fast_fit (seconds)", ("", "fit", "fast_fit", "ratio"), rows, notes
        )

    @property
    def ways(self) -> tuple[Sequence[dict[str, float]], Sequence[dict[str, float]]]:
        return self.plain, self.fast


class _Plain:
    """A problem fitted by Keras' own `fit`."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    @staticmethod
    def fit(model: Any, *data: Any, **options: Any) -> Any:
        return model.fit(*data, **options)


def measure_steps(problem: Problem, candidates: int) -> Steps:
    """Evaluate drawn candidates both ways; one more before, whose times are not counted."""
    from daskevo_workflows.evaluation.quiet_import import import_keras

    import_keras()
    from daskevo.models import seeded
    from daskevo_workflows.evaluation.training import Stopwatch, train
    from daskevo_workflows.problems.building import build_candidate, space_of

    data, space, rng = problem.data(), space_of(problem), np.random.default_rng(0)
    metric = problem.objective.split()[1]
    seconds: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    qualities: list[tuple[float, float]] = []
    for number in range(candidates + 1):
        candidate = space.sample(rng)
        found = [0.0, 0.0]
        # Whoever comes first finds caches cold: each way is first in every other pair.
        for way in (0, 1) if number % 2 else (1, 0):
            stopwatch = Stopwatch()
            with seeded(number):
                with stopwatch.phase("build"):
                    model = build_candidate(problem, candidate)
                metrics, _ = train(problem if way else _Plain(problem), model, data, stopwatch)
            found[way] = float(metrics[metric])
            if number:
                seconds[way].append(stopwatch.seconds)
        if number:
            qualities.append((found[0], found[1]))
    return Steps(problem.name, *seconds, qualities)
