"""Prometheus metrics of coordinators and providers, at ``/metrics`` of the scheduler and of the workers.

One collector per process tells of all coordinators and providers in it. Nothing is offered, and nothing is missing,
where `prometheus_client` is not installed: Dask's ``/metrics`` says so then. A scrape adds up what is known, and
waits for nobody.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from daskevo.provider.call_counts import BOUNDS_S, Count

logger = logging.getLogger(__name__)

Kind = Literal["gauge", "counter", "histogram"]


@dataclass
class Family:
    """One metric, and its value for each part of the process.

    Parameters
    ----------
    name:
        As Prometheus has it, but for the ``_total`` of counters and what it appends to histograms.
    rows:
        Labels' values and the value; of a histogram a :class:`daskevo.provider.call_counts.Count`.
    """

    name: str
    words: str
    kind: Kind
    labels: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], Any]] = field(default_factory=list)


class MetricsSource(Protocol):
    """A part of the process that has figures."""

    def metrics(self) -> Iterable[tuple[str, tuple[str, ...], Any]]:
        """Return ``(name in `FAMILIES`, labels' values, value)``."""


_PROVIDER, _COORDINATOR = ("repository", "provider"), ("repository",)

FAMILIES: Mapping[str, tuple[str, Kind, tuple[str, ...]]] = {
    "daskevo_provider_shards": ("Shards that the provider serves", "gauge", _PROVIDER),
    "daskevo_provider_models": ("Published models, snapshots among them", "gauge", _PROVIDER),
    "daskevo_provider_tensors": ("Tensors that are stored", "gauge", _PROVIDER),
    "daskevo_provider_staged": ("Models that are staged and not published yet", "gauge", _PROVIDER),
    "daskevo_provider_retirements": ("Retirements under way", "gauge", _PROVIDER),
    "daskevo_provider_stored_bytes": ("Payload of the stored tensors", "gauge", _PROVIDER),
    "daskevo_provider_full_copy_bytes": ("What full copies of the models would take", "gauge", _PROVIDER),
    "daskevo_provider_file_bytes": ("Files of tensors, with what is dead in them", "gauge", _PROVIDER),
    "daskevo_provider_journal_bytes": ("Journals of the shards", "gauge", _PROVIDER),
    "daskevo_provider_memory_bytes": ("Tensors in memory", "gauge", _PROVIDER),
    "daskevo_provider_spilled_bytes": ("Tensors of a repository in memory that lie on disk", "gauge", _PROVIDER),
    "daskevo_provider_queries": ("Queries for best matches", "counter", _PROVIDER),
    "daskevo_provider_query_seconds": ("Seconds that a message with queries took", "histogram", _PROVIDER),
    "daskevo_provider_put_bytes": ("Bytes of the models that were put", "counter", _PROVIDER),
    "daskevo_provider_put_seconds": ("Seconds that a put took", "histogram", _PROVIDER),
    "daskevo_provider_reserved_tensors": ("Tensors that were reserved", "counter", _PROVIDER),
    "daskevo_provider_reservation_seconds": ("Seconds that reserving at one owner took", "histogram", _PROVIDER),
    "daskevo_provider_read_parts": ("Parts of reserved tensors that were read", "counter", _PROVIDER),
    "daskevo_provider_read_seconds": ("Seconds that such a read took", "histogram", _PROVIDER),
    "daskevo_coordinator_generation": ("Opening of the repository by one cluster", "gauge", _COORDINATOR),
    "daskevo_coordinator_providers": ("Providers that are there", "gauge", _COORDINATOR),
    "daskevo_coordinator_shards": ("Shards that the repository has", "gauge", _COORDINATOR),
    "daskevo_coordinator_unserved_shards": ("Shards that nobody serves", "gauge", _COORDINATOR),
    "daskevo_coordinator_lost_shards": ("Shards that went with a provider's memory", "gauge", _COORDINATOR),
    "daskevo_coordinator_live_attempts": ("Attempts under way", "gauge", _COORDINATOR),
    "daskevo_coordinator_unsettled_attempts": ("Attempts that ended and are not settled", "gauge", _COORDINATOR),
}
"""Name -> words, kind, names of labels."""

_COUNTS = {
    "queries": ("daskevo_provider_queries", "daskevo_provider_query_seconds"),
    "puts": ("daskevo_provider_put_bytes", "daskevo_provider_put_seconds"),
    "reservations": ("daskevo_provider_reserved_tensors", "daskevo_provider_reservation_seconds"),
    "reads": ("daskevo_provider_read_parts", "daskevo_provider_read_seconds"),
}
"""Count of a tally -> the counter of what calls were about, and the histogram of their seconds."""

_sources: weakref.WeakSet[Any] = weakref.WeakSet()
_collectors: list[Any] = []


def offer(source: MetricsSource) -> None:
    """Have a part of this process told of at its ``/metrics``, as long as it is there."""
    _sources.add(source)
    if _collectors:
        return
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return
    collector = Collector(_sources)
    _collectors.append(collector)
    REGISTRY.register(collector)


def withdraw(source: MetricsSource) -> None:
    """Tell of a part of this process no more."""
    _sources.discard(source)


def families(sources: Iterable[MetricsSource]) -> list[Family]:
    """Return the metrics of some parts, those without a value left out."""
    found = {name: Family(name, *rest) for name, rest in FAMILIES.items()}
    for source in sources:
        for name, labels, value in source.metrics():
            found[name].rows.append((labels, value))
    return [family for family in found.values() if family.rows]


def provider_metrics(
    repository: str, provider: str, figures: Mapping[str, int], counts: Mapping[str, Count]
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Return a provider's metrics (see :class:`MetricsSource`)."""
    labels = (repository, provider)
    for figure, value in figures.items():
        yield f"daskevo_provider_{figure}", labels, value
    for count, (items, seconds) in _COUNTS.items():
        yield items, labels, counts[count].items
        yield seconds, labels, counts[count]


class Collector:
    """What `prometheus_client` asks at each scrape.

    Parameters
    ----------
    sources:
        Parts of this process.
    """

    def __init__(self, sources: Iterable[MetricsSource]) -> None:
        self._sources = sources

    def describe(self) -> Sequence[Any]:
        """Return nothing: what there is depends on who is there when it is asked."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield all metrics as `prometheus_client` has them; a failure costs ours, and not those of Dask."""
        try:
            found = families(list(self._sources))
        except Exception:
            logger.exception("daskevo: its metrics can't be told")
            return
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
        for family in found:
            made = kinds[family.kind](family.name, family.words, labels=family.labels)
            for row, value in family.rows:
                labels = [_sayable(words) for words in row]
                if family.kind == "histogram":
                    made.add_metric(labels, buckets=buckets(value), sum_value=value.seconds)
                else:
                    made.add_metric(labels, value)
            yield made


def _sayable(words: str) -> str:
    """Return a label's value as UTF-8 can carry it: one that it can't would cost Dask's metrics, too.

    Examples
    --------
    >>> _sayable("/data/M\\udcfcller")
    '/data/M\\\\udcfcller'
    """
    return words.encode("utf-8", "backslashreplace").decode()


def buckets(count: Count) -> list[tuple[str, int]]:
    """Return a count's buckets as Prometheus has them: each with all calls that took no longer.

    Examples
    --------
    >>> count = Count()
    >>> count.add(0.0007), count.add(60.0)
    (None, None)
    >>> buckets(count)[:2], buckets(count)[-1]
    ([('0.0005', 0), ('0.001', 1)], ('+Inf', 2))
    """
    found, so_far = [], 0
    for bound, calls in zip((*map(str, BOUNDS_S), "+Inf"), count.within, strict=True):
        so_far += calls
        found.append((bound, so_far))
    return found
