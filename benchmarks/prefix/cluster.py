"""Prefix queries over a real cluster: worker processes that hold the models, and clients that ask all of them.

The shape of paper 000's figure 5: 10,000 queries against 60,000 models, for a growing number of workers and of clients
at a time. Models are put into the providers' indexes by a task on each (the index is what is measured; as records
with tensors they would take an hour), each provider taking those whose home it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from benchmarks.shared.timing import median
from daskevo.types import JSON, ModelId, Tick, VertexId
from daskevo_workflows.measurements.tables import FigureTable, figure

SCOPE = "bench"
LAYERS = 25
"""Vertices of a model: an input and 24 layers, as the models of a small search have."""
OPTIONS = 8
"""Ways that a layer can be."""
POPULATION = 50
"""Random models at the beginning; the others descend from one of the last thousand, as in aged evolution."""
QUERIES, MODELS, SECONDS = 10_000, 60_000, 6.0
"""Asked for by each measurement, held by all workers; and the longest that one measurement goes on."""
QUICK_QUERIES, QUICK_MODELS, QUICK_SECONDS = 100, 300, 0.5
WORKERS = (1, 2, 4)
CLIENTS = (1, 2, 4, 8, 16, 32)
BATCH = 100
BATCHING_CLIENTS = (1, 2, 4)


class ClusterRow(NamedTuple):
    """One measurement.

    Parameters
    ----------
    workers:
        Processes that hold the models.
    clients:
        Threads of one trainer that ask at the same time.
    batch:
        Questions per query.
    queries_per_s:
        Questions answered per second, all clients together.
    median_ms:
        Of the time from a query to its answer, in one client.
    """

    workers: int
    clients: int
    batch: int
    queries_per_s: float
    median_ms: float

    def to_json(self) -> JSON:
        """Return the row as ``--json`` has it."""
        return {
            "workers": self.workers,
            "batch": self.batch,
            "queries_per_s": round(self.queries_per_s, 1),
            "median_ms": round(self.median_ms, 4),
        }


def cluster_rows(quick: bool, say: Callable[[str], None]) -> list[ClusterRow]:
    """Measure on clusters of this machine, one after the other.

    Parameters
    ----------
    quick:
        Toy size: one cluster of two workers, few models.
    say:
        Takes one line about what is measured now.
    """
    rows: list[ClusterRow] = []
    for workers in (2,) if quick else WORKERS:
        say(f"prefix queries over {workers} worker processes")
        rows += _rows_of(workers, quick)
    return rows


def cluster_json(rows: Sequence[ClusterRow]) -> list[JSON]:
    """Return the rows of one client, which the JSON of the benchmark has by workers and batch."""
    return [row.to_json() for row in rows if row.clients == 1]


def cluster_table(rows: Sequence[ClusterRow]) -> FigureTable:
    """Return all rows as a table."""
    return FigureTable(
        "Best matches over a cluster",
        ["workers", "clients", "batch", "queries/s", "median ms"],
        [
            [
                str(row.workers),
                str(row.clients),
                str(row.batch),
                figure(row.queries_per_s),
                figure(row.median_ms),
            ]
            for row in rows
        ],
        [
            "Clients are threads of one trainer. Scheduler, workers and trainer share the cores of this machine.",
            "median ms: of one query (a batch), from the call to its answer.",
        ],
    )


def _rows_of(workers: int, quick: bool) -> list[ClusterRow]:
    import daskevo

    models, queries, seconds = (QUICK_MODELS, QUICK_QUERIES, QUICK_SECONDS) if quick else (MODELS, QUERIES, SECONDS)
    with (
        daskevo.local_cluster(trainers=1, providers=workers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(workers + 1)
        repository = daskevo.open(None, SCOPE, client=client, objective="max score")
        filled = client.gather(
            [
                client.submit(fill, repository.settings.key, models, workers=[f"provider-{number}"], pure=False)
                for number in range(workers)
            ]
        )
        assert sum(filled) == models, "each model has one home"
        found = []
        asked = [(clients, 1) for clients in ((1, 4) if quick else CLIENTS)]
        asked += [(clients, BATCH) for clients in ((1,) if quick else BATCHING_CLIENTS)]
        for clients, batch in asked:
            per_s, median_s = client.submit(
                ask, repository, models, clients, batch, queries, seconds, resources={"evaluation": 1}, pure=False
            ).result()
            found.append(ClusterRow(workers, clients, batch, per_s, 1000 * median_s))
    return found


def fill(key: str, models: int) -> int:
    """On a provider: put those of the models into its index whose home it is; return how many."""
    from distributed import get_worker

    from daskevo.client.connection import provider_plugin
    from daskevo.protocol.hashing import shard_of

    plugin = provider_plugin(get_worker(), key)
    mine, shards = set(plugin.host.shards), plugin.settings.shards
    count = 0
    for number, choices in enumerate(catalogue(models)):
        model_id = ModelId(f"m-{number}")
        if shard_of(model_id, shards) in mine:
            plugin.host.models.index.insert(SCOPE, model_id, ids_of(choices), number % 997 / 997, Tick(1, number + 1))
            count += 1
    return count


def ask(repository: Any, models: int, clients: int, batch: int, queries: int, seconds: float) -> tuple[float, float]:
    """On a trainer: ask from several threads at a time; return questions per second, median seconds of a query."""
    from daskevo.client.best_match import Question

    connection = repository.connection
    best = partial(connection.session.query_batcher.best, timeout_s=repository.timeout_s)
    rng, stored = random.Random(1), catalogue(models)
    asked = [Question(ids_of(mutated(rng.choice(stored), rng))) for _ in range(min(queries, 2_000))]

    def once(start: int) -> float:
        questions = [asked[(start + place) % len(asked)] for place in range(batch)]
        started = time.perf_counter()
        connection.run(best, SCOPE, questions)
        return time.perf_counter() - started

    def client(number: int) -> list[float]:
        # Each from another place; together not more than `queries`, and not longer than `seconds`, but one in any case.
        return [
            once(start * batch)
            for start in range(number, max(queries // batch, clients), clients)
            if start == number or time.perf_counter() < until
        ]

    once(0)
    started = time.perf_counter()
    until = started + seconds
    with ThreadPoolExecutor(clients) as threads:
        times = [found for part in threads.map(client, range(clients)) for found in part]
    return len(times) * batch / (time.perf_counter() - started), median(times)


def catalogue(models: int, seed: int = 0) -> list[bytes]:
    """Return models as the choices of their layers: a first population, then earlier ones with one layer changed."""
    rng = random.Random(seed)
    made = [bytes(rng.randrange(OPTIONS) for _ in range(LAYERS)) for _ in range(min(models, POPULATION))]
    while len(made) < models:
        made.append(mutated(made[rng.randrange(max(0, len(made) - 20 * POPULATION), len(made))], rng))
    return made


def mutated(choices: bytes, rng: random.Random) -> bytes:
    """Change one layer."""
    place = rng.randrange(LAYERS)
    changed = (choices[place] + rng.randrange(1, OPTIONS)) % OPTIONS
    return choices[:place] + bytes([changed]) + choices[place + 1 :]


def ids_of(choices: bytes) -> tuple[VertexId, ...]:
    """Return ids as a chain of layers has them: each holds all that came before."""
    ids: list[VertexId] = []
    above = b""
    for choice in choices:
        above = blake2b(above + bytes([choice]), digest_size=16).digest()
        ids.append(VertexId(above))
    return tuple(ids)
