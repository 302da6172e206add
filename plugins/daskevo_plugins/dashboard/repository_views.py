"""The latest view of each repository, its changes since the previous one, and when the next one is due.

Pure: :mod:`daskevo_plugins.dashboard.poll` queries coordinators and providers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import accumulate

from daskevo.provider.call_counts import BOUNDS_S
from daskevo_plugins.dashboard.repository_view import COUNTS, CountRow, ProviderSight, RepositoryView

EVERY_S = 2.0
"""Interval between two views while a page is watched."""
SHARE = 0.01
"""Maximum share of a provider's time spent on views: large repositories are viewed less often."""
MOST_REPOSITORIES = 20
HISTORY = 150
"""Number of views kept for the chart of queries: five minutes."""
FORGOTTEN_S = 15.0
"""A previous view older than this is not used to compute rates."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls of one kind between two views.

    Parameters
    ----------
    per_s, items_per_s:
        Calls per second, and items per second.
    mean_s, most_s:
        Seconds per call: the mean, and the 99th percentile; None if there was no call.
    """

    per_s: float
    items_per_s: float
    mean_s: float | None
    most_s: float | None


@dataclass(eq=False)
class SeenRepository:
    """Data kept about a repository.

    Parameters
    ----------
    rates:
        By kind of call, over all providers.
    by_provider:
        Queries by provider.
    asked:
        Messages about each shard since the previous view.
    rendered:
        Parts of pages by name, rendered once when first viewed.
    history:
        Time, queries per second, and mean seconds, of each view.
    models_since_s:
        When the current set of models was first seen, by the board's clock.
    lineages:
        Parts of the lineage page by scope, kept as long as the models stay the same.
    """

    view: RepositoryView
    rates: dict[str, Rate] = field(default_factory=dict)
    by_provider: dict[str, Rate] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)
    rendered: dict[str, str] = field(default_factory=dict)
    history: deque[tuple[float, float, float | None]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    models_since_s: float = 0.0
    lineages: dict[str, str] = field(default_factory=dict)

    def part(self, name: str, make: Callable[[], str]) -> str:
        """Return a part of a page, rendering it if necessary."""
        return _made(self.rendered, name, make)

    def lineage(self, scope: str, make: Callable[[], str]) -> str:
        """Return the lineage part of a scope, rendering it if necessary."""
        return _made(self.lineages, scope, make)


def _made(parts: dict[str, str], name: str, make: Callable[[], str]) -> str:
    if name not in parts:
        parts[name] = make()
    return parts[name]


class RepositoryViews:
    """Stores views of repositories.

    Parameters
    ----------
    clock:
        Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, SeenRepository] = {}
        self._next: dict[str, float] = {}
        self._asked: set[str] = set()
        self.changes = 0
        self.model_changes = 0
        """Version of what the lineage page shows."""
        self.troubles: dict[str, str] = {}
        """Why the latest query of a repository failed, by its key."""

    def all(self) -> list[SeenRepository]:
        """Return all, those with the most models first."""
        return sorted(self._seen.values(), key=lambda seen: (-seen.view.total("models"), seen.view.key))

    def one(self, key: str) -> SeenRepository | None:
        """Return the one with this key, or else the first; None if there is none."""
        return self._seen.get(key) or next(iter(self.all()), None)

    def due(self, keys: Collection[str]) -> list[str]:
        """Return those of the present repositories that should be queried now; forget all others."""
        for key in [key for key in self._seen if key not in keys]:
            # Closed, or its coordinator is gone: pages must not offer it any more.
            del self._seen[key]
            self._changed()
        self.troubles = {key: why for key, why in self.troubles.items() if key in keys}
        now = self._clock()
        return [key for key in list(keys)[:MOST_REPOSITORIES] if now >= self._next.get(key, 0.0)]

    def asking(self, key: str) -> None:
        """Note that a query is under way."""
        self._asked.add(key)
        self._next[key] = self._clock() + EVERY_S

    def answered(self, key: str) -> None:
        """Note that a query has ended, with any result."""
        self._asked.discard(key)

    def next_s(self) -> float:
        """Return the seconds until a new view may be there; 0 if a query is under way."""
        # An answer may come at any moment.
        if self._asked or not self._seen:
            return 0.0
        return max(0.0, min(self._next.get(key, 0.0) for key in self._seen) - self._clock())

    def take(self, view: RepositoryView) -> None:
        """Store a view."""
        before = self._seen.get(view.key)
        seen = SeenRepository(view, models_since_s=view.at_s)
        if before is not None:
            seen.history = before.history
            elapsed = view.at_s - before.view.at_s
            # Nobody looked for a while: rates over such a time would be passed off as the present ones.
            if 0 < elapsed <= FORGOTTEN_S:
                _compare(seen, before.view, elapsed)
            elif elapsed > FORGOTTEN_S:
                seen.history.clear()
        self._seen[view.key] = seen
        # From the slowest provider, whose event loop serves trainers meanwhile.
        self._next[view.key] = self._clock() + max(EVERY_S, view.spent_s / SHARE)
        is_known = before is not None and _models(before.view) == _models(view)
        # Equal models make an equal lineage: neither is it drawn again, nor is it sent to browsers again.
        if before is not None and is_known:
            seen.models_since_s, seen.lineages = before.models_since_s, before.lineages
        # The lineage page says what went wrong, and must stop saying so.
        had_trouble = self.troubles.pop(view.key, None) is not None
        self._changed(models=had_trouble or not is_known)

    def failed(self, key: str, why: str) -> None:
        """Note that a query failed: the previous view stays, marked as old."""
        self.troubles[key] = why
        self._changed()

    def _changed(self, *, models: bool = True) -> None:
        self.changes += 1
        self.model_changes += models


def _models(view: RepositoryView) -> tuple[object, ...]:
    """Return everything in a view that the lineage page shows."""
    return view.models, view.models_in_all


def _compare(seen: SeenRepository, before: RepositoryView, elapsed: float) -> None:
    """Compute changes since the previous view; counts of a restarted provider begin at zero."""
    earlier = {provider.name: provider for provider in before.providers}
    pairs = [(provider, earlier.get(provider.name)) for provider in seen.view.providers]
    for kind in COUNTS:
        seen.rates[kind] = _rate([_since(provider, old, kind) for provider, old in pairs], elapsed)
    seen.by_provider = {
        provider.name: _rate([_since(provider, old, "queries")], elapsed) for provider, old in pairs if old is not None
    }
    asked = {(row.shard, row.provider): row.asked for row in before.shard_rows}
    seen.asked = {
        row.shard: max(0, row.asked - asked.get((row.shard, row.provider), row.asked)) for row in seen.view.shard_rows
    }
    queries = seen.rates["queries"]
    seen.history.append((seen.view.at_s, queries.items_per_s, queries.mean_s))


def _since(provider: ProviderSight, old: ProviderSight | None, kind: str) -> CountRow:
    now = provider.tally[kind]
    then = None if old is None else old.tally[kind]
    # Fewer calls than before: the provider has restarted, and all that it counts is new. Of one that is seen for the
    # first time nothing is known to be new.
    if then is None or then.calls > now.calls:
        return now if then is not None else CountRow(0, 0, 0.0, (0,) * len(now.within))
    return CountRow(
        now.calls - then.calls,
        # A provider that has had more calls since its restart than before passes the check above.
        max(0, now.items - then.items),
        max(0.0, now.spent_s - then.spent_s),
        tuple(max(0, one - other) for one, other in zip(now.within, then.within, strict=True)),
    )


def _rate(counts: list[CountRow], elapsed: float) -> Rate:
    calls = sum(one.calls for one in counts)
    within = [sum(places) for places in zip(*(one.within for one in counts), strict=True)]
    return Rate(
        per_s=calls / elapsed,
        items_per_s=sum(one.items for one in counts) / elapsed,
        mean_s=sum(one.spent_s for one in counts) / calls if calls else None,
        most_s=_below(within, 0.99),
    )


def _below(within: list[int], share: float) -> float | None:
    """Return the bound below which this share of calls took; infinite if above all bounds."""
    least = share * sum(within)
    bounds = zip((*BOUNDS_S, float("inf")), accumulate(within), strict=True)
    return next((bound for bound, so_far in bounds if so_far >= least), None) if least else None
