"""Prometheus metrics of coordinators and providers, at the ``/metrics`` page of the scheduler and the workers.

One collector per process covers all coordinators and providers in it. Without `prometheus_client` nothing is collected;
Dask's ``/metrics`` page then says that it is missing. A scrape adds up counts in memory and waits for nobody.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal, Protocol

from daskevo.provider.call_counts import BOUNDS_S, Count

logger = logging.getLogger(__name__)

Kind = Literal["gauge", "counter", "histogram"]


@dataclass
class Family:
    """One metric, with a value for each source in the process.

    Parameters
    ----------
    name:
        As in Prometheus, without ``_total`` (counters) and the suffixes of histograms.
    rows:
        Label values and the value; for a histogram a :class:`daskevo.provider.call_counts.Count`.
    """

    name: str
    words: str
    kind: Kind
    labels: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], Any]] = field(default_factory=list)


class MetricsSource(Protocol):
    """An object in this process that has metrics: a coordinator or a provider."""

    def metrics(self) -> Iterable[tuple[str, tuple[str, ...], Any]]:
        """Return ``(name in `FAMILIES`, label values, value)``."""


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
    "daskevo_coordinator_waiting_retirements": ("Retirements that wait for a provider", "gauge", _COORDINATOR),
}
"""Name -> help text, kind, label names."""

_COUNTS = {
    "queries": ("daskevo_provider_queries", "daskevo_provider_query_seconds"),
    "puts": ("daskevo_provider_put_bytes", "daskevo_provider_put_seconds"),
    "reservations": ("daskevo_provider_reserved_tensors", "daskevo_provider_reservation_seconds"),
    "reads": ("daskevo_provider_read_parts", "daskevo_provider_read_seconds"),
}
"""Name of a count -> the counter of its items, and the histogram of its seconds."""

_sources: weakref.WeakSet[Any] = weakref.WeakSet()
_collectors: list[Any] = []


def offer(source: MetricsSource) -> None:
    """Include a source in this process's ``/metrics`` until it is withdrawn or deleted."""
    _sources.add(source)
    if _collectors:
        return
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        return
    # One collector for the process: the registry refuses a second one with the same names.
    collector = Collector(_sources)
    _collectors.append(collector)
    REGISTRY.register(collector)


def withdraw(source: MetricsSource) -> None:
    """Remove a source from this process's ``/metrics``."""
    _sources.discard(source)


def families(sources: Iterable[MetricsSource]) -> list[Family]:
    """Return the metrics of all sources, without those that have no value."""
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
    """The collector that `prometheus_client` calls at each scrape.

    Parameters
    ----------
    sources:
        Coordinators and providers of this process.
    """

    def __init__(self, sources: Iterable[MetricsSource]) -> None:
        self._sources = sources

    def describe(self) -> Sequence[Any]:
        """Return nothing: the metrics depend on the sources at the time of a scrape."""
        # Without this, the registry would collect once at registration, to learn the names.
        return []

    def collect(self) -> Iterator[Any]:
        """Yield all metrics; an error here is logged and must not break Dask's own metrics on the same page."""
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
    """Return a label value that UTF-8 can encode: one that it can't would break Dask's metrics too.

    Examples
    --------
    >>> _sayable("/data/M\\udcfcller")
    '/data/M\\\\udcfcller'
    """
    return words.encode("utf-8", "backslashreplace").decode()


def buckets(count: Count) -> list[tuple[str, int]]:
    """Return a count's cumulative buckets, as Prometheus has them.

    Examples
    --------
    >>> count = Count()
    >>> count.add(0.0007), count.add(60.0)
    (None, None)
    >>> buckets(count)[:2], buckets(count)[-1]
    ([('0.0005', 0), ('0.001', 1)], ('+Inf', 2))
    """
    return list(zip((*map(str, BOUNDS_S), "+Inf"), accumulate(count.within), strict=True))
