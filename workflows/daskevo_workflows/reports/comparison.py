"""Two runs compared: what paper 000 reports of a search with and without transfer, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from daskevo_workflows.reports.series import RunSeries, cumulative_bytes, first_reaching, high_quality, late, mean
from daskevo_workflows.reports.tables import Table, name_of, ratio
from daskevo_workflows.words import say_bytes, say_quality, say_seconds, say_share


def comparison(runs: Sequence[RunSeries]) -> Table | None:
    """Compare two runs as paper 000 does in section 5; the targets are those of the run that inherited less."""
    if len(runs) < 2:
        return None
    first, second = runs[0], runs[1]
    baseline = min((first, second), key=lambda run: len(run.transferred))
    best = baseline.best(1)
    target, top = high_quality(baseline), best[0].quality if best else None

    def reach(goal: float | None) -> list[tuple[int, float] | None]:
        return [first_reaching(run, goal) if goal is not None else None for run in (first, second)]

    rows: list[tuple[str, ...]] = [
        _row("evaluations", [len(r.finished) for r in runs], lambda x: f"{x:.0f}", ratios=False),
        _row("running time", [r.runtime_s for r in runs], say_seconds),
        _row(
            "mean seconds of an evaluation",
            [mean([e.cost_s for e in r.finished if e.seconds]) for r in runs],
            say_seconds,
        ),
        _row("… of the last quarter", [mean([e.cost_s for e in late(r) if e.seconds]) for r in runs], say_seconds),
        _row(
            "deviation of evaluation seconds",
            [deviation([e.cost_s for e in r.finished if e.seconds]) for r in runs],
            say_seconds,
        ),
        _row("best quality", [b[0].quality if (b := r.best(1)) else None for r in runs], say_quality, ratios=False),
        _row("mean quality", [mean([e.quality or 0.0 for e in r.scored]) for r in runs], say_quality, ratios=False),
    ]
    for name, goal in ((f"{name_of(baseline)}'s high quality", target), (f"{name_of(baseline)}'s best", top)):
        hits = reach(goal)
        words = f"{name} ({say_quality(goal)})"
        rows.append(
            _row(f"evaluations to {words}", [hit[0] if hit else None for hit in hits], lambda x: f"{x:.0f}", never=True)
        )
        rows.append(_row(f"time to {words}", [hit[1] if hit else None for hit in hits], say_seconds, never=True))
    rows += [
        _row("mean share of frozen vertices", [r.mean_frozen_share for r in runs], say_share, ratios=False),
        _row(
            "stored bytes, nothing retired", [c[-1][1] if (c := cumulative_bytes(r)) else None for r in runs], say_bytes
        ),
        _row("stored bytes", [r.storage[-1].stored_bytes if r.storage else None for r in runs], say_bytes),
        _row(
            "repository / evaluation time",
            [ratio(r.repository_s, r.evaluation_s) for r in runs],
            say_share,
            ratios=False,
        ),
    ]
    heads = ("", *(name_of(run) for run in runs), f"{name_of(second)} / {name_of(first)}")
    return Table(heads, tuple(rows), frozenset({1, 2, 3}))


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample, None of fewer than two."""
    centre = mean(values)
    if centre is None or len(values) < 2:
        return None
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def _row(
    name: str,
    values: Sequence[float | None],
    say: Callable[[float], str],
    *,
    ratios: bool = True,
    never: bool = False,
) -> tuple[str, ...]:
    words = [say(value) if value is not None else ("never" if never else "–") for value in values]
    quotient = ratio(values[1], values[0]) if ratios else None
    return name, *words, "" if quotient is None else f"{quotient:.2f}" if quotient < 10 else f"{quotient:.0f}"
