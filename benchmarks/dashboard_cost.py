"""What the dashboard's pages cost the scheduler during a real search, with no viewer and with ten of every page.

Run it as ``python -m benchmarks.dashboard_cost [--evaluations 60] [--rounds 5]``: clusters of processes, each
scheduler in one of its own, search with trainers that sleep instead of training. Viewers in another process fetch each
page as browsers do: over one connection each, as often as the scheduler says. In every round each number of viewers has
a search of its own, and so has a scheduler without a dashboard; they take turns. Printed are medians of the rounds:
milliseconds of the scheduler's processor time per second of the search and per evaluation, what the searching process
took, and how long the search.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from distributed import Client

import daskevo
from benchmarks.shared.sleeping_problem import Sleeping
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.dashboard.dashboard_client import where_shown

TRAINERS = 4
VIEWERS = (None, 0, 10)
"""None: no dashboard at all."""
PAGES = ("search", "repository", "lineage", "studies")

VIEWER = """
import asyncio, sys
from urllib.parse import urlsplit

async def view(url):
    # As browsers do: over one connection, and again when the scheduler says that there may be more.
    parts, seen = urlsplit(url), ""
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while True:
        writer.write(f"GET {parts.path}/now?seen={seen} HTTP/1.1\\r\\nHost: {parts.netloc}\\r\\n\\r\\n".encode())
        first, *lines = (await reader.readuntil(b"\\r\\n\\r\\n")).decode().strip().split("\\r\\n")
        said = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        await reader.readexactly(int(said.get("content-length", 0)))
        seen = said.get("x-daskevo-version", seen)
        await asyncio.sleep(float(said.get("x-daskevo-next", 1)))

async def main(urls):
    await asyncio.gather(*map(view, urls))

asyncio.run(main(sys.argv[1:]))
"""


class Cost(NamedTuple):
    """What one search took, in seconds: of the wall, of the scheduler's processor time, of the searching process's."""

    wall_s: float
    scheduler_s: float
    search_s: float


def _started(arguments: list[str]) -> subprocess.Popen[Any]:
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Cluster:
    """A scheduler, a provider and trainers as processes of their own.

    Parameters
    ----------
    folder:
        For its files.
    shows:
        Whether the scheduler shows a dashboard.
    """

    def __init__(self, folder: Path, *, shows: bool) -> None:
        file = folder / f"scheduler-{shows}.json"
        dashboard = ["--dashboard", "--dashboard-address", "127.0.0.1:0"] if shows else ["--no-dashboard"]
        common = ["--scheduler-file", str(file)]
        self.scheduler = _started(["dask_scheduler", *common, "--host", "127.0.0.1", "--port", "0", *dashboard])
        local = ["--local-directory", str(folder), "--no-dashboard"]
        workers = [("provider", "provider=1", 2), *((f"trainer-{n}", "evaluation=1", 1) for n in range(TRAINERS))]
        self._processes = [
            _started(
                ["dask_worker", *common, *local, "--name", name, "--resources", resources, "--nthreads", str(threads)]
            )
            for name, resources, threads in workers
        ]
        while not file.exists():
            time.sleep(0.1)
        self.client = Client(scheduler_file=str(file), set_as_default=False)
        self.client.wait_for_workers(len(workers), timeout=300)
        self.process = psutil.Process(self.scheduler.pid)

    def close(self) -> None:
        """End all of it."""
        self.client.close()
        for process in (*self._processes, self.scheduler):
            process.terminate()
        for process in (*self._processes, self.scheduler):
            process.wait(60)


def search(cluster: Cluster, folder: Path, viewers: int | None, evaluations: int, sleep_s: float, seed: int) -> Cost:
    """Run one search with so many viewers of every page."""
    client = cluster.client
    repository = daskevo.open(folder / "repository", "sleeping", client=client, objective="max val_score")
    process = None
    if viewers:
        link, why = where_shown(client, "search")
        assert link is not None, why
        urls = [link.replace("/search", f"/{page}") for page in PAGES for _ in range(viewers)]
        process = subprocess.Popen([sys.executable, "-c", VIEWER, *urls])
        time.sleep(3.0)
    try:
        began, before, own = time.perf_counter(), _spent(cluster.process), time.process_time()
        nas.search(
            Sleeping(sleep_s),
            AgedEvolution(population=20, sample=5),
            repository=repository,
            evaluations=evaluations,
            run=folder / "run",
            seed=seed,
            recycle_after=None,
        )
        spent = _spent(cluster.process) - before
        return Cost(time.perf_counter() - began, spent, time.process_time() - own)
    finally:
        if process is not None:
            process.kill()
            process.wait()


def _spent(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sleep", type=float, default=1.0, help="seconds that each training sleeps")
    arguments = parser.parse_args()
    load = "/".join(f"{one:.1f}" for one in os.getloadavg())
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load}, Python "
        f"{platform.python_version()}; {TRAINERS} trainers that sleep {arguments.sleep:g} s, {arguments.evaluations} "
        f"evaluations, medians of {arguments.rounds} rounds",
        flush=True,
    )
    costs: dict[int | None, list[Cost]] = defaultdict(list)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        clusters = {shows: Cluster(Path(name), shows=shows) for shows in (True, False)}
        try:
            # The first evaluation of each trainer imports Keras.
            for shows, cluster in clusters.items():
                search(cluster, Path(name) / f"warm-{shows}", 0, 2 * TRAINERS, 0.1, 0)
            for number in range(arguments.rounds):
                for viewers in VIEWERS:
                    folder = Path(name) / f"{number}-{viewers}"
                    cluster = clusters[viewers is not None]
                    cost = search(cluster, folder, viewers, arguments.evaluations, arguments.sleep, number)
                    costs[viewers].append(cost)
        finally:
            for cluster in clusters.values():
                cluster.close()
    print("| viewers of each page | scheduler, ms/s | scheduler, ms per evaluation | search, ms/s | search took |")
    print("|---|--:|--:|--:|--:|")
    for viewers in VIEWERS:
        found = costs[viewers]
        per_s = statistics.median(cost.scheduler_s / cost.wall_s for cost in found) * 1e3
        each = statistics.median(cost.scheduler_s for cost in found) / arguments.evaluations * 1e3
        own = statistics.median(cost.search_s / cost.wall_s for cost in found) * 1e3
        took = statistics.median(cost.wall_s for cost in found)
        what = "no dashboard" if viewers is None else f"{viewers}"
        print(f"| {what} | {per_s:.1f} | {each:.1f} | {own:.1f} | {took:.1f} s |", flush=True)
    print(f"load after: {'/'.join(f'{one:.1f}' for one in os.getloadavg())}")


if __name__ == "__main__":
    main()
