"""Compare arms as paper 000 compares searches with and without transfer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from daskevo_plugins.formatting import plain, say_bytes, say_qualities, say_quality, say_seconds, say_share
from daskevo_workflows.reports.arms import Arm, Spread, spread
from daskevo_workflows.reports.series import (
    RunSeries,
    cumulative_bytes,
    first_reaching,
    high_quality,
    late,
    mean,
)
from daskevo_workflows.reports.tables import ReportTable, ratio

Figure = Callable[[RunSeries], float | None]


def comparison(arms: Sequence[Arm]) -> ReportTable | None:
    """Compare arms as in section 5 of paper 000; targets come from the arm that inherited least.

    With several runs in an arm each figure is the median, with minimum and maximum in brackets; targets are those of
    its worst run.
    """
    if len(arms) < 2:
        return None
    # The one that inherited least is what transfer has to beat, as in section 5 of paper 000.
    baseline = min(arms, key=lambda arm: sum(len(run.transferred) for run in arm.runs) / len(arm.runs))
    name = plain(baseline.label, 60)
    target, top = _worst(baseline, high_quality), _worst(baseline, _best)
    which = ", in its worst run" if len(baseline.runs) > 1 else ""
    rows: list[tuple[str, ...]] = [
        _row(arms, "evaluations", lambda run: len(run.finished), _say_count, ratios=False),
        _row(arms, "running time", lambda run: run.runtime_s, say_seconds),
        _row(arms, "mean seconds of an evaluation", lambda run: mean(_costs(run)), say_seconds),
        _row(
            arms,
            "… of the last quarter",
            lambda run: mean([e.cost_s for e in late(run) if e.seconds]),
            say_seconds,
        ),
        _row(arms, "deviation of evaluation seconds", lambda run: deviation(_costs(run)), say_seconds),
        _row(arms, "best quality", _best, say_quality, ratios=False),
        _row(arms, "mean quality", lambda run: mean([e.quality or 0.0 for e in run.scored]), say_quality, ratios=False),
    ]
    for words, goal in ((f"{name}'s high quality{which}", target), (f"{name}'s best{which}", top)):
        said = f"{words} ({say_quality(goal)})"
        # Both, because seconds also depend on how fast the machine was.
        rows.append(_row(arms, f"evaluations to {said}", _reach(goal, 0), _say_count, never=True))
        rows.append(_row(arms, f"time to {said}", _reach(goal, 1), say_seconds, never=True))
    rows += [
        _row(arms, "mean share of frozen vertices", lambda run: run.mean_frozen_share, say_share, ratios=False),
        _row(arms, "stored bytes, nothing retired", _all_bytes, say_bytes),
        _row(arms, "stored bytes", lambda run: run.storage[-1].stored_bytes if run.storage else None, say_bytes),
        _row(
            arms,
            "repository / evaluation time",
            lambda run: ratio(run.repository_s, run.evaluation_s),
            say_share,
            ratios=False,
        ),
    ]
    names = [plain(arm.label, 60) for arm in arms]
    last = (f"{names[1]} / {names[0]}",) if len(arms) == 2 else ()
    return ReportTable(("", *names, *last), tuple(rows), frozenset(range(1, len(arms) + 2)))


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample; None for fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def _costs(run: RunSeries) -> list[float]:
    return [e.cost_s for e in run.finished if e.seconds]


def _worst(arm: Arm, figure: Figure) -> float | None:
    """Return the worst of the runs' qualities, which each of them has reached (the median need not be)."""
    known = [value for run in arm.runs if (value := figure(run)) is not None]
    return min(known, key=arm.runs[0].objective.rank, default=None)


def _best(run: RunSeries) -> float | None:
    best = run.best(1)
    return best[0].quality if best else None


def _all_bytes(run: RunSeries) -> float | None:
    rows = cumulative_bytes(run)
    return rows[-1][1] if rows else None


def _reach(goal: float | None, part: int) -> Figure:
    def find(run: RunSeries) -> float | None:
        hit = None if goal is None else first_reaching(run, goal)
        return None if hit is None else hit[part]

    return find


def _say_count(count: float) -> str:
    return f"{count:.0f}" if count == int(count) else f"{count:.1f}"


def _row(
    arms: Sequence[Arm],
    name: str,
    figure: Figure,
    say: Callable[[float], str],
    *,
    ratios: bool = True,
    never: bool = False,
) -> tuple[str, ...]:
    """Return a row of the table.

    Parameters
    ----------
    never:
        Whether a missing value means never, and so counts as larger than any.
    """
    found = [spread(figure(run) for run in arm.runs) for arm in arms]
    words = [_say(one, say, never=never) for one in found]
    # Equal decimals in a row, so that they can be compared at a glance; ranges have decimals of their own.
    if say is say_quality and all(one is not None and one.runs == 1 for one in found):
        words = say_qualities([one.middle for one in found if one is not None])
    if len(arms) != 2:
        return name, *words
    middles = [_middle(one, never=never) for one in found]
    # A ratio of qualities says nothing: of 0.98 and 0.99 it hides that half of the errors are gone.
    quotient = ratio(middles[1], middles[0]) if ratios and None not in middles else None
    said = "" if quotient is None else f"{quotient:.2f}" if quotient < 10 else f"{quotient:.0f}"
    return name, *words, said


def _middle(found: Spread | None, *, never: bool) -> float | None:
    if found is None or (never and not math.isfinite(found.middle)):
        return None
    # Most runs lack the figure, and here that doesn't mean never: the highest known is nearest to a median.
    return found.middle if math.isfinite(found.middle) else found.high


def _say(found: Spread | None, say: Callable[[float], str], *, never: bool) -> str:
    middle = _middle(found, never=never)
    if found is None or middle is None:
        if not never:
            return "–"
        return "never" if found is None else f"in {found.reached} of {found.runs} runs only"
    if found.runs == 1:
        return say(middle)
    # A range from a number to itself is none.
    if found.low == found.high and found.reached == found.runs:
        return say(middle)
    missing = f", {found.reached} of {found.runs} runs" if never and found.reached < found.runs else ""
    return f"{say(middle)} ({say(found.low)} to {say(found.high)}{missing})"
