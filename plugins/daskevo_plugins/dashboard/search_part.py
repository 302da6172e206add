"""The part of a search's page that is rendered again only when there is news of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from markupsafe import Markup

from daskevo_plugins.dashboard.search_news import Point, SearchNews, TrainerRow
from daskevo_plugins.dashboard.svg import (
    Chart,
    Part,
    drawing,
    side_by_side,
    stacked_bar,
    ticks,
    time_ticks,
    within_most,
)
from daskevo_plugins.dashboard.templates import render
from daskevo_plugins.formatting import say_count, say_quality, say_seconds, say_share

WINDOW = 10
"""Evaluations of which the mean frozen share is drawn."""
PHASE_STYLES = 9
"""Phases have so many looks."""


def search_part(news: SearchNews) -> str:
    """Return the figures, the drawings over time, and the tables."""
    # The best must be seen, and what failed to learn must not press all others together.
    low, high = within_most([point.quality for point in news.points])
    best = [quality for _, quality in news.best_line[-1:]]
    low, high = min(low, *best, high), max(high, *best, low)
    budget = _budget(news)
    # News may say anything: the bar has to be as wide as its parts, whatever the budget.
    whole = max(news.evaluations, news.finished + news.under_way)
    longest = max((sum(row.spent_s) for row in news.trainers), default=0.0)
    return render(
        "search.html.j2",
        news=news,
        beside=", ".join(_beside(news)),
        recent=news.points[-2 * WINDOW :],
        foretold=_foretold(news),
        budget=stacked_bar("budget", "The budget", budget, whole),
        budget_parts=budget,
        quality=_quality(news, low, high),
        off=sum(not low <= point.quality <= high for point in news.points),
        frozen=_frozen(news),
        phase_bar=partial(_phase_bar, news, longest),
        looks=PHASE_STYLES,
    )


def _beside(news: SearchNews) -> Iterator[str]:
    for count, word in (
        (news.failed, "failure"),
        (news.rejected, "rejected candidate"),
        (news.duplicates, "duplicate"),
    ):
        if count:
            yield say_count(count, word)
    if news.stopped:
        yield f"{news.stopped} given up"


def _foretold(news: SearchNews) -> str:
    if news.left_s is None:
        return "known once an evaluation has finished"
    said = f"by the last evaluations, on {say_count(news.slots, 'trainer')}"
    if news.deadline_s is not None:
        said += f"; its process has {say_seconds(max(0.0, news.deadline_s))} left"
        if news.deadline_s < news.left_s:
            said += ", and the same command goes on after that"
    return said


def _budget(news: SearchNews) -> list[Part]:
    left = max(0, news.evaluations - news.finished - news.under_way)
    return [
        ("done", news.finished, f"{news.finished:,} finished"),
        ("running", news.under_way, f"{news.under_way:,} under way"),
        ("left", left, f"{left:,} to go"),
    ]


def _until_s(news: SearchNews) -> float:
    # The running time is of the snapshot, a point's of its trainer's clock, which may be ahead.
    return max(news.running_s, news.points[-1].at_s, 1.0)


def _quality(news: SearchNews, low: float, high: float) -> Markup | None:
    points = news.points
    if not points:
        return None
    better = f"{'more' if news.direction == 'max' else 'less'} is better"
    best = say_quality(news.best_line[-1][1] if news.best_line else None)
    chart = Chart(
        "quality",
        f"{news.metric} over time",
        f"{say_count(news.finished, 'evaluation')}, the best {best}, {better}.",
        height=300,
        x=(0.0, _until_s(news)),
        y=(low, high),
        y_words=f"{news.metric}, {better}",
    )
    # Members first: their larger dots lie below the others, as rings around them.
    chart.dots(_where(point for point in points if point.is_member), "member", "in the population", 11.5)
    chart.dots(_where(point for point in points if not point.inherited), "hollow", "from scratch", 8.5)
    chart.dots(_where(point for point in points if point.inherited), "full", "inherited a prefix")
    chart.steps(news.best_line, "best", "best so far")
    return chart.svg(time_ticks(chart.x[1]), [(value, say_quality(value)) for value in ticks(low, high)])


def _where(points: Iterable[Point]) -> Iterator[tuple[float, float]]:
    return ((point.at_s, point.quality) for point in points)


def _frozen(news: SearchNews) -> Markup | None:
    points = news.points
    if not points:
        return None
    sums, mean = 0.0, []
    for place, point in enumerate(points):
        # A running sum, so that 600 points cost one pass; `max` below, since it may end a rounding error under 0.
        sums += point.frozen_share - (points[place - WINDOW].frozen_share if place >= WINDOW else 0.0)
        mean.append((point.at_s, max(0.0, sums / min(place + 1, WINDOW))))
    chart = Chart(
        "frozen",
        "Frozen share over time",
        f"The share of a model's vertices that were inherited and not trained any more: {say_share(mean[-1][1])} of "
        f"the last {min(len(points), WINDOW)}.",
        height=170,
        x=(0.0, _until_s(news)),
        y=(0.0, 1.0),
        y_words="of each model's vertices",
    )
    chart.dots(((point.at_s, point.frozen_share) for point in points), "full faded", "one evaluation", 5)
    chart.line(mean, "mean", f"mean of the last {WINDOW}")
    return chart.svg(time_ticks(chart.x[1]), [(share, say_share(share)) for share in (0.0, 0.5, 1.0)])


def _phase_bar(news: SearchNews, longest: float, row: TrainerRow) -> Markup:
    """Return a trainer's seconds by phase as a small bar, as long as it was busy beside the busiest."""
    parts = [
        (f"phase-{place % PHASE_STYLES}", spent_s, f"{phase.phase} {say_seconds(spent_s)}")
        for place, (phase, spent_s) in enumerate(zip(news.phases, row.spent_s, strict=True))
    ]
    said = ", ".join(words for _, _, words in parts)
    return drawing(200, 12, *side_by_side(parts, longest, 200, 12), aria_label=said, class_="small")
