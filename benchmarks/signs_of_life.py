"""Does a provider give its signs of life while it holds ten thousand models and moves a gigabyte to disk and back?

Run it from the root of the repository as ``python -m benchmarks.signs_of_life [--models 10000] [--large 64]``. It
starts a cluster of its own, one provider and two trainers as processes, with a repository in memory that may have 64
MB of it: all else is spilled. A trainer puts small models, then large ones of 16 MB, and reads those back; the client
asks for a best match every 50 ms all the while.

It prints JSON: for each phase the longest time between two heartbeats of the provider as the scheduler got them (Dask
asks for one every half second), the longest delay of the provider's event loop and, for comparison, of a trainer's that
has nothing to do, what Dask logged of a loop that was unresponsive (above 3 s), and how long the queries took.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import threading
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np

import daskevo
from daskevo.client.connection import provider_plugin
from daskevo.deploy.worker_list import workers_of
from tests.cluster.helpers import chain, put_reserved, reserve

SMALL = [chain(24, 24, width) for width in range(8, 40)]
LARGE = chain(800_000)
MEMORY_BYTES = 64_000_000
QUERY_EVERY_S = 0.05
TICK_S = 0.02
UNRESPONSIVE = "unresponsive"


async def watch_loop(dask_worker: Any) -> None:
    """Note, from now on, the delays of this worker's event loop and what Dask logs of it."""
    worker = dask_worker
    worker.delays, worker.lines = [], []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            worker.lines.append(record.getMessage())

    logging.getLogger("distributed.core").setLevel(logging.INFO)
    logging.getLogger("distributed.core").addHandler(Lines())

    async def tick() -> None:
        while True:
            due = time.monotonic() + TICK_S
            await asyncio.sleep(TICK_S)
            worker.delays.append(time.monotonic() - due)

    worker.ticking = asyncio.ensure_future(tick())


def delays_seen(dask_worker: Any) -> dict[str, Any]:
    """Return the longest delay since the last call, and the lines about it."""
    worker = dask_worker
    delays, worker.delays = worker.delays, []
    lines, worker.lines = worker.lines, []
    return {
        "longest_delay_s": round(max(delays), 3),
        "unresponsive": [line for line in lines if UNRESPONSIVE in line],
    }


def bytes_in(key: str, dask_worker: Any) -> dict[str, int]:
    """Return how much of a provider's tensors is in memory, and how much on disk."""
    tensors = provider_plugin(dask_worker, key).host.tensors
    return {"memory_bytes": tensors.memory_bytes, "spilled_bytes": tensors.payload_bytes - tensors.memory_bytes}


def put_small(repository: Any, first: int, count: int) -> None:
    """Put small models, 8 at once, from a trainer."""

    async def one(here: Any, number: int) -> None:
        graph = SMALL[number % len(SMALL)]
        await put_reserved(here, graph, await reserve(here, graph, f"small-{number}"), seed=number)

    _many(repository, one, range(first, first + count), 8)


def put_large(repository: Any, count: int) -> None:
    """Put large models that share nothing, two at once."""

    async def one(here: Any, number: int) -> None:
        tensors = {
            index: np.full(key.spec.shape, number + index / 8, np.float32) for index, key in enumerate(LARGE.tensors)
        }
        reservation = await reserve(here, LARGE, f"large-{number}", ancestor=False)
        await put_reserved(here, LARGE, reservation, tensors=tensors)

    _many(repository, one, range(count), 2)


def read_large(repository: Any, count: int) -> None:
    """Read them back."""
    for number in range(count):
        for index, array in enumerate(repository.read(f"large-{number}").values()):
            assert (array == np.float32(number + index / 8)).all(), (number, index)


def _many(repository: Any, one: Any, numbers: Any, at_once: int) -> None:
    connection, caller, left = repository.connection, repository.connection.caller(), iter(numbers)
    # Who asks is known in the task's own thread only.
    here = SimpleNamespace(
        connection=SimpleNamespace(session=connection.session, caller=lambda: caller),
        scope=repository.scope,
        objective=repository.objective,
    )

    async def some() -> None:
        for number in left:
            await one(here, number)

    async def all_of_them() -> None:
        await asyncio.gather(*(some() for _ in range(at_once)))

    connection.run(all_of_them)


class Beats:
    """When the scheduler heard each worker."""

    def __init__(self, scheduler: Any) -> None:
        self._real = scheduler.handlers["heartbeat_worker"]
        self.heard: dict[str, list[float]] = {}
        scheduler.handlers["heartbeat_worker"] = self._hear

    def _hear(self, *arguments: Any, address: str, **options: Any) -> Any:
        self.heard.setdefault(address, []).append(time.monotonic())
        return self._real(*arguments, address=address, **options)

    def longest_s(self, address: str, begun: float) -> float:
        """Return the longest gap since a moment, the one that lasts until now included."""
        times = [begun, *(moment for moment in self.heard.get(address, ()) if moment > begun), time.monotonic()]
        return max(later - earlier for earlier, later in pairwise(times))


@contextlib.contextmanager
def asked_all_the_while(repository: Any) -> Any:
    """Ask small queries in a thread; the list has how long each took, in seconds."""
    took: list[float] = []
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(QUERY_EVERY_S):
            begun = time.monotonic()
            assert repository.best_match(SMALL[len(took) % len(SMALL)]).partial == {}
            took.append(time.monotonic() - begun)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield took
    finally:
        ended.set()
        asking.join()


def signs_of_life(models: int, large: int) -> dict[str, Any]:
    """Go through the phases on a cluster of its own; return what was seen in each."""
    found: dict[str, Any] = {}
    with (
        daskevo.local_cluster(trainers=2, providers=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(3)
        beats = Beats(cluster.scheduler)
        repository = daskevo.open(None, "test", client=client, objective="max score", memory=MEMORY_BYTES, shards=8)
        workers = workers_of(client).items()
        (provider,) = (address for address, facts in workers if facts["name"] == "provider-0")
        (idle,) = (address for address, facts in workers if facts["name"] == "trainer-1")
        client.run(watch_loop, workers=[provider, idle])
        trainer = {"workers": ["trainer-0"], "pure": False}
        for phase, function, arguments in (
            ("small models put", put_small, (0, models)),
            ("large models put", put_large, (large,)),
            ("large models read", read_large, (large,)),
        ):
            begun = time.monotonic()
            with asked_all_the_while(repository) as took:
                client.submit(function, repository, *arguments, **trainer).result()
            seen = client.run(delays_seen, workers=[provider, idle])
            memory = client.run(bytes_in, repository.settings.key, workers=[provider])[provider]
            found[phase] = {
                "seconds": round(time.monotonic() - begun, 1),
                "longest_between_heartbeats_s": round(beats.longest_s(provider, begun), 3),
                **seen[provider],
                "longest_delay_of_an_idle_worker_s": seen[idle]["longest_delay_s"],
                **memory,
                "queries": len(took),
                "query_p50_ms": round(1000 * float(np.percentile(took or [float("nan")], 50)), 1),
                "query_p99_ms": round(1000 * float(np.percentile(took or [float("nan")], 99)), 1),
            }
        found["models"] = repository.stats()["models"]
    return found


def main() -> None:
    """Read the arguments, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=64)
    arguments = parser.parse_args()
    print(json.dumps(signs_of_life(arguments.models, arguments.large), indent=1))


if __name__ == "__main__":
    # What goes to workers must have a name there: as the script itself it would have none.
    from benchmarks.signs_of_life import main as as_a_module

    as_a_module()
