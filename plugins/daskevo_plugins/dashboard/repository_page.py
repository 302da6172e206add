"""The repositories page as HTML: counts of the coordinators and the latest answers of their providers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.charts import Chart, stacked_bar, ticks
from daskevo_plugins.dashboard.markup import age, cards, empty, html, link, table
from daskevo_plugins.dashboard.repository_view import RepositoryView
from daskevo_plugins.dashboard.repository_views import EVERY_S, HISTORY, Rate, SeenRepository
from daskevo_plugins.formatting import say_bytes, say_count, say_seconds, say_share, say_times

MOST_SHARDS = 16
"""Maximum number of rows in the table of shards; the most used ones are shown."""
MOST_PROVIDERS = 64

NOTHING = (
    "No repository is open on this cluster yet. <code>daskevo nas PROBLEM</code>, <code>daskevo tune PROBLEM</code> or "
    "<code>daskevo.open(root, scope, client=client)</code> opens one; it appears here by itself. A repository that no "
    "cluster serves is looked at with <code>daskevo models ls RUN</code>."
)


def repository_now(board: Board, query: dict[str, str]) -> str:
    """Return the page's current content; the argument `repository` selects the repository."""
    seen = board.sights.one(query.get("repository", ""))
    if seen is None:
        return trouble_of(board) or empty(NOTHING)
    sight = seen.sight
    return "".join(
        (
            f"<h2>{html(sight.name)}</h2>",
            f'<p class="quiet">durability: {html(sight.durability)} · {say_count(sight.shards, "shard")} · ',
            f"last look {age(board.clock() - sight.at_s)}</p>",
            choose(board, seen),
            trouble_of(board, sight.key),
            seen.part("repository", lambda: _part(seen)),
        )
    )


def _part(seen: SeenRepository) -> str:
    """Return the part that changes only with a new view."""
    sight = seen.sight
    figures = f"{_amiss(sight)}{cards(_cards(seen))}{_shared(sight)}{_queries(seen)}"
    return f"{figures}{_providers(seen)}{_scopes(sight)}{_shards(seen)}{_labels(sight)}"


def trouble_of(board: Board, key: str | None = None) -> str:
    """Return why the latest queries failed: of one repository, or of any if there is nothing to show."""
    troubles = board.sights.troubles
    if key is None:
        said, words = "The repository can't be looked at just now; it is tried again", "; ".join(troubles.values())
    else:
        said, words = "The last look came to nothing, what is shown is older", troubles.get(key, "")
    return empty(f"{said}: {html(words)}") if words else ""


def choose(board: Board, seen: SeenRepository) -> str:
    """Return links to all repositories, if there are several."""
    every = board.sights.all()
    if len(every) < 2:
        return ""
    links = ", ".join(link(one.sight.name, is_here=one is seen, repository=one.sight.key) for one in every)
    return f'<p class="quiet">Repositories: {links}</p>'


def _amiss(sight: RepositoryView) -> str:
    """Return warnings about problems that need attention."""
    said = [f"{html(name)} did not tell: {html(why)}" for name, why in sight.silent]
    for what, shards in (("are being opened, or their provider has gone", sight.unserved), ("are lost", sight.lost)):
        if shards:
            some = ", ".join(map(str, shards[:10]))
            said.append(f"Of {sight.shards:,} shards {len(shards):,} {what}: {some}{', …' if len(shards) > 10 else ''}")
    return "".join(f'<p class="empty">{words}</p>' for words in said)


def _cards(seen: SeenRepository) -> Iterator[tuple[object, object, object]]:
    sight, queries = seen.sight, seen.rates.get("queries")
    stored, full, models = sight.total("stored_bytes"), sight.total("full_copy_bytes"), sight.total("models")
    scopes = say_count(len(sight.scopes), "scope")
    yield "models", f"{models:,}", f"in {scopes}; {sight.total('tensors'):,} tensors stored"
    quota = "" if sight.quota_bytes is None else f"of {say_bytes(sight.quota_bytes)} that it may take; "
    yield "stored", say_bytes(stored), f"{quota}full copies: {say_bytes(full)}"
    times = say_times(full / stored if stored else None)
    yield "shared", say_share(1 - stored / full if full else None), f"full copies would take {times} as much"
    attempts = say_count(sight.attempts, "attempt")
    unsettled = f", {sight.unsettled:,} to be settled" if sight.unsettled else ""
    yield "references", f"{sight.total('references'):,}", "of models on tensors of others"
    yield "reservations", f"{sight.total('reservations'):,}", f"of {attempts} under way{unsettled}"
    wait = f"a look every {EVERY_S:g} s"
    yield "queries per second", _say_rate(queries), _say_latency(queries) if queries else wait
    puts = seen.rates.get("puts")
    written = f"{say_bytes(puts.items_per_s)}/s, {_say_latency(puts)}" if puts and puts.per_s else ""
    yield "puts per second", "–" if puts is None else _say_per_s(puts.per_s), written
    memory, spilled = sight.total("memory_bytes"), sight.total("spilled_bytes")
    disk = sight.total("file_bytes") or spilled
    kind = "spilled to disk" if sight.root is None else "in files"
    yield "in memory", say_bytes(memory), f"{kind}: {say_bytes(disk)}"
    if sight.root is not None:
        yield "journals", say_bytes(sight.total("journal_bytes")), ""


def _say_rate(rate: Rate | None) -> str:
    return "–" if rate is None else _say_per_s(rate.items_per_s)


def _say_per_s(rate: float) -> str:
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"


def _say_latency(rate: Rate) -> str:
    if rate.mean_s is None:
        return "none since the look before"
    most = rate.most_s
    beyond = "" if most is None or math.isinf(most) else f", 99 % below {say_seconds(most)}"
    return f"{say_seconds(rate.mean_s)} each{beyond}"


def _shared(sight: RepositoryView) -> str:
    stored, full = float(sight.total("stored_bytes")), float(sight.total("full_copy_bytes"))
    if not full:
        return ""
    saved = max(0.0, full - stored)
    parts = [
        ("done", stored, f"{say_bytes(stored)} stored"),
        ("left", saved, f"{say_bytes(saved)} not stored again, since models share tensors"),
    ]
    return stacked_bar("shared", "Bytes stored against full copies", parts, max(full, stored))


def _queries(seen: SeenRepository) -> str:
    if len(seen.history) < 2:
        return ""
    last = seen.history[-1][0]
    points = [(at_s - last, rate) for at_s, rate, _ in seen.history]
    most = max(max(rate for _, rate in points), 1.0)
    chart = Chart(
        "queries",
        "Queries per second",
        f"The last {say_seconds(-points[0][0])}: {points[-1][1]:.3g} at the last look, {most:.3g} at most.",
        height=150,
        x=(min(points[0][0], -30.0), 0.0),
        y=(0.0, most * 1.08),
        y_words=f"all providers, the last {HISTORY} looks at most",
    )
    chart.line(points, "mean", "queries per second")
    span = -chart.x[0]
    marks = [(-value, "now" if not value else f"-{value:g} s") for value in ticks(0, span)]
    return f'<h3>Queries per second</h3><figure><div class="drawing">{chart.svg(marks, _whole(most))}</div></figure>'


def _whole(most: float) -> list[tuple[float, str]]:
    return [(value, f"{value:g}") for value in ticks(0, most, 3)]


def _providers(seen: SeenRepository) -> str:
    sight = seen.sight
    rows = []
    for provider in sight.providers[:MOST_PROVIDERS]:
        figures, rate = provider.figures, seen.by_provider.get(provider.name)
        rows.append(
            (
                provider.name,
                f"{figures['shards']:,}",
                f"{figures['models']:,}",
                say_bytes(figures["stored_bytes"]),
                say_bytes(figures["memory_bytes"]),
                say_bytes(figures["spilled_bytes"] if sight.root is None else figures["file_bytes"]),
                _say_rate(rate),
                "–" if rate is None or rate.mean_s is None else say_seconds(rate.mean_s),
            )
        )
    disk = "spilled" if sight.root is None else "in files"
    heads = ("provider", "shards", "models", "stored", "in memory", disk, "queries per second", "each takes")
    left = len(sight.providers) - MOST_PROVIDERS
    note = f"{left:,} more are not listed." if left > 0 else ""
    return table("Providers", heads, rows, numbers=range(1, 8), note=note)


def _scopes(sight: RepositoryView) -> str:
    rows = [
        (
            link(row.scope, page="lineage", repository=sight.key, scope=row.scope)
            if not row.scope.endswith(".snapshots")
            else row.scope,
            row.objective or "–",
            f"{row.models:,}",
            say_bytes(row.put_bytes),
            say_bytes(row.full_bytes),
            say_times(row.full_bytes / row.put_bytes if row.put_bytes else None),
        )
        for row in sight.scopes
    ]
    heads = ("scope", "objective", "models", "put by them", "full copies", "as much")
    note = (
        "A scope's name leads to its lineage. Counted are the models that live; what is stored beyond is of retired "
        "ones, as long as heirs use it."
    )
    return table("Scopes", heads, rows, numbers=(2, 3, 4, 5), note=note)


def _shards(seen: SeenRepository) -> str:
    sight = seen.sight
    hottest = sorted(sight.shard_rows, key=lambda row: (-seen.asked.get(row.shard, 0), -row.asked, row.shard))
    rows = [
        (
            row.shard,
            row.provider,
            f"{row.models:,}",
            say_bytes(row.put_bytes),
            say_bytes(row.journal_bytes),
            f"{seen.asked.get(row.shard, 0):,}",
            f"{row.asked:,}",
        )
        for row in hottest[:MOST_SHARDS]
    ]
    heads = ("shard", "provider", "models", "put there", "journal", "messages since the last look", "since it opened")
    title = "Shards, the hottest first" if len(hottest) > 1 else "Shards"
    note = f"{MOST_SHARDS} of {len(hottest):,}." if len(hottest) > MOST_SHARDS else ""
    return table(title, heads, rows, numbers=(2, 3, 4, 5, 6), note=note)


def _labels(sight: RepositoryView) -> str:
    rows = [(label, f"{models:,}") for label, models in sight.labels[:20]]
    note = "A label keeps its models; with its last label a model is retired."
    return table("Labels", ("label", "models"), rows, numbers=(1,), note=note)
