"""What one arm gave, as plain figures, targets taken from the arm that it is compared with."""

from __future__ import annotations

import math
import statistics
from typing import Any

from daskevo_workflows.reports.series import (
    RunSeries,
    cumulative_bytes,
    first_reaching,
    high_quality,
    late,
    phase_means,
    running_best,
)

EVERY = 10
"""Evaluations between two points of the curve of the best so far."""


def figures(run: RunSeries, baseline: RunSeries, again: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an arm's figures; those of what it stored are None where it stores nothing.

    Parameters
    ----------
    again:
        What its best models scored when they were trained from scratch.
    """
    seconds = [evaluation.total_s for evaluation in run.finished]
    targets = {"p90": high_quality(baseline), "best": baseline.best(1)[0].quality}
    kept = run.storage[-1] if run.storage else None
    _, own, full = cumulative_bytes(run)[-1] if kept else (0.0, None, None)
    return {
        "evaluations": len(run.finished),
        "failures": len(run.failed),
        "duplicates": run.duplicates,
        "runtime_s": run.runtime_s,
        "late_evaluation_s": statistics.mean(evaluation.total_s for evaluation in late(run)),
        "evaluation_mean_s": statistics.mean(seconds),
        "evaluation_deviation_s": statistics.stdev(seconds),
        "best": run.best(1)[0].quality,
        "mean": statistics.mean(e.quality for e in run.scored if e.quality is not None),
        **{f"to_{name}": first_reaching(run, target) for name, target in targets.items() if target is not None},
        "best_by_evaluations": best_by_evaluations(run),
        "best_by_seconds": best_by_seconds(run),
        "mean_frozen_share": run.mean_frozen_share,
        "transferred": len(run.transferred),
        "repository_share": run.repository_s / run.evaluation_s,
        "not_retired_stored_bytes": own,
        "not_retired_full_bytes": full,
        "stored_bytes": None if kept is None else kept.stored_bytes,
        "full_copy_bytes": None if kept is None else kept.full_bytes,
        "phases_s": phase_means(run.finished),
        "retrained": again,
    }


def best_by_evaluations(run: RunSeries) -> dict[int, float]:
    """Return the best after every tenth evaluation, and after the last."""
    best = running_best([e.quality or 0.0 for e in run.scored], run.objective)
    counts = sorted({*range(EVERY, len(best) + 1, EVERY), len(best)} - {0})
    return {count: best[count - 1] for count in counts}


def best_by_seconds(run: RunSeries) -> dict[int, float | None]:
    """Return the best after 15, 30, 60, 90, ... seconds of running time; None while there is none.

    The last point is the first at which the run has ended.
    """
    best = running_best([e.quality or 0.0 for e in run.scored], run.objective)
    ended = [e.ended_s or 0.0 for e in run.scored]
    points = [15, *range(30, 30 * math.ceil(run.runtime_s / 30) + 1, 30)]
    counts = {point: sum(moment <= point for moment in ended) for point in points}
    return {point: best[count - 1] if count else None for point, count in counts.items()}
