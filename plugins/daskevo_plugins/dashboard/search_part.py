"""All of a search's page that does not change until there are others news of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from daskevo_plugins.dashboard.charts import Chart, stacked_bar, ticks, time_ticks, within_most
from daskevo_plugins.dashboard.markup import Html, age, cards, html, table
from daskevo_plugins.dashboard.search_news import Point, SearchNews, TrainerRow
from daskevo_plugins.formatting import say_bytes, say_count, say_quality, say_seconds, say_share, say_times

WINDOW = 10
"""Evaluations of which the mean frozen share is drawn."""
PHASE_STYLES = 9
"""Phases have so many looks."""

_DOES = {
    "evaluating": "",
    "free": "free",
    "restarting": "is being started again",
    "stuck": "still has one that was given up",
    "paused": "paused by Dask: too little memory",
    "silent": "nothing is heard of it",
}


def search_part(news: SearchNews) -> str:
    """Return the figures, the drawings over time, and the tables."""
    return "".join(
        (
            cards(_cards(news)),
            _budget(news),
            _quality(news),
            _frozen(news),
            _trainers(news),
            _units(news),
            _phases(news),
        )
    )


def _cards(news: SearchNews) -> Iterator[tuple[object, object, object]]:
    apart = [
        say_count(count, word)
        for count, word in ((news.failed, "failure"), (news.rejected, "rejected candidate"))
        if count
    ]
    if news.duplicates:
        apart.append(say_count(news.duplicates, "duplicate"))
    if news.stopped:
        apart.append(f"{news.stopped} given up")
    yield "finished", f"{news.finished:,} of {news.evaluations:,}", ", ".join(apart) or "evaluations"
    best = news.best
    where = "" if best is None else f"evaluation {best.number}, after {say_seconds(_reached(news))}"
    yield f"best {news.metric}", say_quality(None if best is None else best.quality), where
    recent = news.points[-2 * WINDOW :]
    shares = [point.frozen_share for point in recent]
    inherited = sum(point.inherited for point in recent)
    frozen = say_share(sum(shares) / len(shares)) if shares else "–"
    yield (
        f"frozen, last {len(recent)}",
        frozen,
        f"{inherited} of {len(recent)} inherited a prefix" if recent else "",
    )
    if news.population is not None:
        members = [point.quality for point in news.points if point.is_member]
        said = f"{say_quality(min(members))} to {say_quality(max(members))}" if members else ""
        yield "population", f"{news.population:,}", said
    if news.stored_bytes is not None:
        times = say_times((news.full_bytes or 0) / news.stored_bytes) if news.stored_bytes else "–"
        yield "stored", say_bytes(news.stored_bytes), f"full copies: {say_bytes(news.full_bytes)}, {times}"
    yield "trainers at work", f"{news.under_way} of {news.slots}", ""
    if not news.is_over:
        yield "ends in about", say_seconds(news.left_s), _foretold(news)


def _foretold(news: SearchNews) -> str:
    if news.left_s is None:
        return "known once an evaluation has finished"
    said = f"by the last evaluations, on {say_count(news.slots, 'trainer')}"
    if news.deadline_s is not None:
        said += f"; its process has {say_seconds(max(0.0, news.deadline_s))} left"
        if news.deadline_s < news.left_s:
            said += ", and the same command goes on after that"
    return said


def _reached(news: SearchNews) -> float | None:
    return news.best_line[-1][0] if news.best_line else None


def _budget(news: SearchNews) -> str:
    left = max(0, news.evaluations - news.finished - news.under_way)
    whole = max(news.evaluations, news.finished + news.under_way)
    parts = [
        ("done", float(news.finished), f"{news.finished:,} finished"),
        ("running", float(news.under_way), f"{news.under_way:,} under way"),
        ("left", float(left), f"{left:,} to go"),
    ]
    apart = (
        f"Beside the budget: {news.failed:,} failed, {news.rejected:,} rejected before training, {news.duplicates:,} "
        "with the graph of an earlier one."
    )
    return f'{stacked_bar("budget", "The budget", parts, whole)}<p class="quiet">{apart}</p>'


def _quality(news: SearchNews) -> str:
    points = news.points
    if not points:
        return f'<h3>Quality over time</h3><p class="quiet">{_waiting(news)}</p>'
    # The best must be seen, and what failed to learn must not press all others together.
    low, high = within_most([point.quality for point in points])
    best = [quality for _, quality in news.best_line]
    low, high = min(low, *best[-1:], high), max(high, *best[-1:], low)
    chart = Chart(
        "quality",
        f"{news.metric} over time",
        f"{say_count(news.finished, 'evaluation')}, the best {say_quality(best[-1] if best else None)}, "
        f"{'more' if news.direction == 'max' else 'less'} is better.",
        height=300,
        x=(0.0, max(news.running_s, points[-1].at_s, 1.0)),
        y=(low, high),
        y_words=f"{news.metric}, {'more' if news.direction == 'max' else 'less'} is better",
    )
    chart.dots(_where(point for point in points if point.is_member), "member", "in the population", 11.5)
    chart.dots(_where(point for point in points if not point.inherited), "hollow", "from scratch", 8.5)
    chart.dots(_where(point for point in points if point.inherited), "full", "inherited a prefix")
    chart.steps(news.best_line, "best", "best so far")
    off = sum(not low <= point.quality <= high for point in points)
    left_out = (
        f" {off:,} that lie{'s' * (off == 1)} far off {'is' if off == 1 else 'are'} drawn at the edge." if off else ""
    )
    some = f" {len(points):,} of {news.finished:,} evaluations are drawn." if len(points) < news.finished else ""
    drawing = chart.svg(time_ticks(chart.x[1]), [(value, say_quality(value)) for value in ticks(low, high)])
    return _figure("Quality over time", drawing, f"{left_out}{some}")


def _waiting(news: SearchNews) -> str:
    if news.is_over:
        return "No evaluation has finished."
    return (
        "No evaluation has finished yet: trainers import Keras and prepare the data first, which takes from some "
        "seconds to a minute."
    )


def _where(points: Iterator[Point]) -> Iterator[tuple[float, float]]:
    return ((point.at_s, point.quality) for point in points)


def _frozen(news: SearchNews) -> str:
    points = news.points
    if not points:
        return ""
    sums, mean = 0.0, []
    for place, point in enumerate(points):
        sums += point.frozen_share - (points[place - WINDOW].frozen_share if place >= WINDOW else 0.0)
        mean.append((point.at_s, max(0.0, sums / min(place + 1, WINDOW))))
    chart = Chart(
        "frozen",
        "Frozen share over time",
        f"The share of a model's vertices that were inherited and not trained any more: {say_share(mean[-1][1])} of "
        f"the last {min(len(points), WINDOW)}.",
        height=170,
        x=(0.0, max(news.running_s, points[-1].at_s, 1.0)),
        y=(0.0, 1.0),
        y_words="of each model's vertices",
    )
    chart.dots(((point.at_s, point.frozen_share) for point in points), "full faded", "one evaluation", 5)
    chart.line(mean, "mean", f"mean of the last {WINDOW}")
    drawing = chart.svg(time_ticks(chart.x[1]), [(share, say_share(share)) for share in (0.0, 0.5, 1.0)])
    return _figure("Frozen share over time", drawing, "")


def _figure(title: str, drawing: str, words: str) -> str:
    below = f"<figcaption>{html(words.strip())}</figcaption>" if words else ""
    return (
        f'<h3>{html(title)}</h3><figure><div class="drawing" tabindex="0" role="region" aria-label="{html(title)}">'
        f"{drawing}</div>{below}</figure>"
    )


def _trainers(news: SearchNews) -> str:
    longest = max((sum(row.spent_s) for row in news.trainers), default=0.0)
    rows = [
        (
            row.trainer,
            row.what if row.doing == "evaluating" else _DOES[row.doing],
            age(row.for_s, ago=False),
            f"{row.evaluations:,}",
            say_seconds(sum(row.spent_s)),
            _phase_bar(row, [phase.phase for phase in news.phases], longest),
        )
        for row in news.trainers
    ]
    heads = ("trainer", "does", "for", "evaluations", "took", "seconds by phase")
    return table("What each trainer does", heads, rows, numbers=(3, 4))


def _phase_bar(row: TrainerRow, phases: Sequence[str], longest: float) -> Html:
    """Return a trainer's seconds by phase as a small bar, as long as it was busy beside the busiest."""
    x, shapes = 0.0, ""
    for place, (phase, spent_s) in enumerate(zip(phases, row.spent_s, strict=True)):
        width = 200 * spent_s / longest if longest else 0.0
        if width:
            words = html(f"{phase} {say_seconds(spent_s)}")
            shapes += (
                f'<rect x="{x:.1f}" width="{width:.1f}" height="12" class="phase-{place % PHASE_STYLES}">'
                f"<title>{words}</title></rect>"
            )
        x += width
    said = ", ".join(f"{phase} {say_seconds(spent_s)}" for phase, spent_s in zip(phases, row.spent_s, strict=True))
    return Html(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 12" role="img" aria-label="{html(said)}" '
        f'class="small">{shapes}</svg>'
    )


def _phases(news: SearchNews) -> str:
    whole = sum(phase.spent_s for phase in news.phases)
    rows = [
        (
            Html(f'<span class="key phase-{place % PHASE_STYLES}"></span>{html(phase.phase)}'),
            f"{phase.times:,}",
            say_seconds(phase.spent_s / phase.times) if phase.times else "–",
            say_seconds(phase.spent_s),
            say_share(phase.spent_s / whole if whole else None),
        )
        for place, phase in enumerate(news.phases)
    ]
    return table("Seconds by phase", ("phase", "evaluations", "mean", "all", "share"), rows, numbers=(1, 2, 3, 4))


def _units(news: SearchNews) -> str:
    rows = [(unit.kind, *(f"{count:,}" for count in (unit.ready, unit.under_way, *unit[3:]))) for unit in news.units]
    heads = ("kind", "ready", "under way", "done", "failed", "lost", "cancelled")
    note = (
        "match: the query of a batch to all providers; evaluate: inherit, train, score and put one candidate. What is "
        "ready has been planned, and waits for a trainer; what is under way has one. Lost: its worker went, or no "
        "answer came in time; such an evaluation is done again, and one whose query was lost asks for itself."
    )
    return table("Units by kind", heads, rows, numbers=(1, 2, 3, 4, 5, 6), note=note)
