"""What is measured of the prefix index and its rivals, over one catalogue after the other."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.prefix import algorithm1, redis_rival, sqlite_rival
from benchmarks.prefix.catalogues import Catalogue, Kind, make
from benchmarks.prefix.cluster import ClusterRow, cluster_json, cluster_rows, cluster_table
from benchmarks.shared.outcome import Outcome
from benchmarks.shared.timing import median, quantile, timed, undisturbed
from daskevo.errors import DaskevoError
from daskevo.index import Entry, PrefixIndex, Query
from daskevo.types import JSON, ModelId, Tick
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.measurements.tables import FigureTable, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.shared.command import Say

CATALOGUES: tuple[Kind, ...] = ("random", "lineage")
SIZES = (60_000, 600_000)
QUICK_SIZE = 300
QUERIES = 2000
CHANGES, ROUNDS = 2000, 5
BATCH = 100
DATABASE_MODELS = 100_000
"""Above that, databases are not filled: their time grows with the models, as at the smaller size."""
SCOPE = "bench"

Rows = dict[str, Sequence[float | None]]


@dataclass(frozen=True)
class Measured:
    """Figures of one catalogue, times in microseconds; None: not measured."""

    kind: Kind
    models: int
    mean_us: float
    p50_us: float
    p99_us: float
    batch_us: float
    insert_us: float
    retire_us: float
    bytes_per_model: float
    scan_us: float
    python_us: float
    sqlite_us: float | None
    redis_us: float | None

    def value(self, cluster: Sequence[JSON]) -> JSON:
        """Return what ``--json`` prints."""
        index = {
            key: getattr(self, key)
            for key in ("mean_us", "p50_us", "p99_us", "insert_us", "retire_us", "bytes_per_model")
        }
        return {
            "models": self.models,
            "index": index,
            "scan": {"mean_us": self.scan_us},
            "redis": None if self.redis_us is None else {"mean_us": self.redis_us},
            "cluster": list(cluster),
        }


def measure(quick: bool, say: Say, kinds: Sequence[Kind] = CATALOGUES, sizes: Sequence[int] = SIZES) -> Outcome:
    """Measure catalogues of all these kinds and sizes; the JSON is that of the first."""
    if quick:
        sizes = [QUICK_SIZE]
    found: list[Measured] = []
    cluster: list[ClusterRow] = []
    for models in sizes:
        for kind in kinds:
            say(f"making {models:,} models, {kind} ...")
            catalogue = make(kind, models, 50 if quick else QUERIES)
            found.append(_measure(catalogue, quick, partial(_say, say, f"{models:,} {kind}")))
            if len(found) == 1:
                cluster = cluster_rows(quick, say)
    machine = machine_line(["numpy", "numba", "redis"])
    return Outcome(machine, _tables(found, cluster), found[0].value(cluster_json(cluster)), partial(_draw, found))


def _say(say: Say, where: str, what: str) -> None:
    say(f"{where}: {what} ...")


def _measure(catalogue: Catalogue, quick: bool, say: Callable[[str], None]) -> Measured:
    queries = [Query(model.ids, edges=model.edges) for model in catalogue.queries]
    say("index")
    index, bytes_per_model = _filled(catalogue)
    times = _times([partial(index.best, SCOPE, *query) for query in queries])
    batches = [queries[start : start + BATCH] for start in range(0, len(queries), BATCH)]
    batch_us = sum(_times([partial(index.best_many, SCOPE, batch) for batch in batches])) / len(queries)
    retire_us, insert_us = _changes(catalogue, index, 50 if quick else CHANGES)

    say("Algorithm 1, compiled")
    kinds: dict[str, int] = {}
    ancestors = algorithm1.compact(catalogue.models, kinds)
    graphs = [algorithm1.compact([model], kinds) for model in catalogue.queries[:20]]
    algorithm1.compiled_scan(graphs[0], ancestors)  # compiles
    scan_us = fmean(_times([partial(algorithm1.compiled_scan, graph, ancestors) for graph in graphs]))
    say("Algorithm 1, Python")
    plain = [algorithm1.graph_of(model.leaves) for model in catalogue.queries[:3]]
    some = [algorithm1.graph_of(model.leaves) for model in catalogue.models[:10_000]]
    scans = _times([partial(algorithm1.scan, graph, some) for graph in plain])
    python_us = fmean(scans) * len(catalogue.models) / len(some)

    small = len(catalogue.models) <= DATABASE_MODELS
    return Measured(
        catalogue.kind,
        len(catalogue.models),
        fmean(times),
        quantile(times, 0.5),
        quantile(times, 0.99),
        batch_us,
        insert_us,
        retire_us,
        bytes_per_model,
        scan_us,
        python_us,
        _sqlite(catalogue, index, say) if small else None,
        _redis(catalogue, say) if small and redis_rival.missing() is None else None,
    )


def _times(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the microseconds that each call takes, the second time: the first brings what it needs into the caches."""
    found = []
    for call in calls[: len(calls) // 4 + 1]:
        call()
    with undisturbed():
        for call in calls:
            started = time.perf_counter_ns()
            call()
            found.append((time.perf_counter_ns() - started) / 1000)
    return found


def _entry(catalogue: Catalogue, number: int) -> Entry:
    name = ModelId(f"bench-{number:08}")
    return Entry(SCOPE, name, catalogue.models[number].ids, catalogue.ranks[number], Tick(1, number))


def _filled(catalogue: Catalogue) -> tuple[PrefixIndex, float]:
    """Return an index of all models, and by how much it makes this process larger, for each."""
    index = PrefixIndex()
    index.warm()
    before = _resident()
    for number in range(len(catalogue.models)):
        index.insert(*_entry(catalogue, number))
    return index, (_resident() - before) / len(catalogue.models)


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _changes(catalogue: Catalogue, index: PrefixIndex, changes: int) -> tuple[float, float]:
    """Retire models drawn by chance one by one, and insert them again; return microseconds of each, means of a round.

    Medians of several rounds: one thread that is put off for some milliseconds would be a third of a round's time.
    """
    numbers = random.Random(1).sample(range(len(catalogue.models)), changes)
    entries = [_entry(catalogue, number) for number in numbers]

    def retire() -> None:
        for entry in entries:
            index.remove(entry.model_id)

    def insert() -> None:
        for entry in entries:
            index.insert(*entry)

    rounds = [(*timed(retire, repeat=1), *timed(insert, repeat=1)) for _ in range(ROUNDS)]
    retire_s, insert_s = (median(times) for times in zip(*rounds, strict=True))
    return retire_s * 1e6 / changes, insert_s * 1e6 / changes


def _sqlite(catalogue: Catalogue, index: PrefixIndex, say: Callable[[str], None]) -> float:
    say("SQLite")
    with contextlib.closing(sqlite_rival.fill(catalogue.models, catalogue.ranks)) as base:
        asked = catalogue.queries[:20]
        for model in asked:
            number, score = sqlite_rival.ask(base, model)
            match = index.best(SCOPE, model.ids, edges=model.edges)
            if match is None or (match.model_id, match.score) != (_entry(catalogue, number).model_id, score):
                raise DaskevoError(
                    f"the index found {match}, SQLite model {number} with {score} vertices: one is wrong"
                )
        times = _times([partial(sqlite_rival.ask, base, model) for model in asked])
    return fmean(times)


def _redis(catalogue: Catalogue, say: Callable[[str], None]) -> float:
    say("Redis")
    with redis_rival.server() as client:
        redis_rival.fill(client, catalogue.models)
        graphs = [algorithm1.graph_of(model.leaves) for model in catalogue.queries[:3]]
        return fmean(timed(partial(redis_rival.ask, client, graphs[0]), repeat=len(graphs))) * 1e6


def _tables(found: Sequence[Measured], cluster: Sequence[ClusterRow]) -> list[FigureTable]:
    heads = [f"{one.kind} {one.models:,}" for one in found]
    rows: Rows = {
        "daskevo's index: mean": [one.mean_us for one in found],
        "median": [one.p50_us for one in found],
        "99th percentile": [one.p99_us for one in found],
        f"in batches of {BATCH}": [one.batch_us for one in found],
        "Algorithm 1, compiled scan": [one.scan_us for one in found],
        "Algorithm 1, Python": [one.python_us for one in found],
        "SQLite, indexed": [one.sqlite_us for one in found],
        "Redis, values iterated": [one.redis_us for one in found],
    }
    absent = redis_rival.missing()
    notes = [
        "Each time is that of a call from Python, answer included. Compiled scan: Algorithm 1 of the paper as printed, "
        "standing for its C++. Python: measured over 10,000 models, in proportion.",
        f"Redis is absent: {absent} is not installed."
        if absent
        else "Redis and SQLite: not measured above 100,000 models, their time grows with the number of models.",
    ]
    ratios: Rows = {
        "the compiled scan": [one.scan_us / one.mean_us for one in found],
        "Algorithm 1 in Python": [one.python_us / one.mean_us for one in found],
        "SQLite": [one.sqlite_us and one.sqlite_us / one.mean_us for one in found],
        "Redis": [one.redis_us and one.redis_us / one.mean_us for one in found],
    }
    changes: Rows = {
        "insert, µs": [one.insert_us for one in found],
        "retire, µs": [one.retire_us for one in found],
        "bytes per model": [one.bytes_per_model for one in found],
    }
    tables = [
        FigureTable("Best match of one graph, in µs", ["", *heads], _rows(rows), notes),
        FigureTable("How many times faster the index is, means", ["than", *heads], _rows(ratios)),
        FigureTable("Changes and memory of the index", ["", *heads], _rows(changes)),
    ]
    if cluster:
        tables.append(cluster_table(cluster))
    return tables


def _rows(rows: Rows) -> list[list[str]]:
    return [[name, *map(figure, values)] for name, values in rows.items()]


def _draw(found: Sequence[Measured], drawing: Figure) -> None:
    from daskevo_workflows.reports.svg import BLUE, FAINT, GREEN, ORANGE, PURPLE, VERMILION, logarithmic

    bars: dict[str, tuple[Sequence[float | None], str]] = {
        "daskevo's index": ([one.mean_us for one in found], BLUE),
        "Algorithm 1, compiled scan": ([one.scan_us for one in found], ORANGE),
        "SQLite, indexed": ([one.sqlite_us for one in found], GREEN),
        "Algorithm 1, Python": ([one.python_us for one in found], PURPLE),
        "Redis, values iterated": ([one.redis_us for one in found], VERMILION),
    }
    axes = drawing.subplots()
    height = 0.8 / len(bars)
    for place, (name, (values, colour)) in enumerate(bars.items()):
        shown = [(row, value) for row, value in enumerate(values) if value is not None]
        rows = [row + (place - (len(bars) - 1) / 2) * height for row, _ in shown]
        axes.barh(rows, [value / 1e6 for _, value in shown], height * 0.9, color=colour, label=name)
        for row, (_, value) in zip(rows, shown, strict=True):
            axes.annotate(_short(value), (value / 1e6, row), (3, 0), textcoords="offset points", va="center", size=8)
    axes.set_yticks(range(len(found)), [f"{one.models:,}\n{one.kind}" for one in found])
    axes.invert_yaxis()
    logarithmic(axes.xaxis, lambda seconds: _short(1e6 * seconds, 1))
    axes.margins(x=0.12)
    axes.set_xlabel("time of one query, mean (logarithmic)")
    axes.set_title("Best match among all models of a catalogue")
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_color(FAINT)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _short(microseconds: float, digits: int = 2) -> str:
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{figure(microseconds / scale, digits)} {unit}"
    return f"{figure(microseconds, digits)} µs"
