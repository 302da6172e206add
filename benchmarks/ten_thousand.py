"""Put and retire models by the thousands, with providers killed on the way: what is left on disk and in memory.

Run it from the root of the repository as ``python -m benchmarks.ten_thousand [--steps 10000] [--kills 10]
[--minutes 8] [--at-once 16] [--root FOLDER]``. It starts a cluster of its own, two providers as processes; scheduler
and client are this process. A step inherits from the best match (or from nothing), puts, and retires the model that was
stored 50 steps before.

It prints JSON: what became of the steps, bytes on disk and in memory once all is retired, how many entries the tables
of scheduler and providers had before and after, and the memory of each process over time. That is RssAnon (what it has
made for itself, without mapped files; of Linux only), for each life of a worker on its own: one that was killed begins
anew.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import daskevo
from benchmarks.table_sizes import sizes, sizes_on
from daskevo.deploy.local import local_cluster
from daskevo.errors import ClusterError, DaskevoError, ModelRetired, UnknownModel
from daskevo.repository.handle import _stats
from daskevo.types import ModelId
from tests.cluster.helpers import chain, coordinator_of, put_reserved, reserve

SAMPLES = 40
GRAPHS = [chain(24, 24, width) for width in range(8, 40)]


class Churn:
    """Steps that come and go, several at once.

    Parameters
    ----------
    repository:
        Of a client.
    cluster:
        Its processes are looked at.
    keep:
        So many models live at the same time.
    """

    def __init__(self, repository: Any, cluster: Any, keep: int) -> None:
        self.repository = repository
        self.outcomes: Counter[str] = Counter()
        self.memory: dict[str, list[tuple[int, int]]] = {}
        """Process -> steps done and bytes, again and again."""
        self.done = 0
        self._cluster = cluster
        self._keep = keep
        self._living: deque[str] = deque()
        self._random = random.Random(1)

    async def run(self, steps: int, at_once: int, until: float = math.inf, every: int = 0) -> None:
        """Take steps; note the memory every so many, or never."""
        numbers = iter(range(self.done, self.done + steps))

        async def worker() -> None:
            for number in numbers:
                if time.monotonic() > until:
                    return
                await self._step(number)
                self.done += 1
                if every and self.done % every == 0:
                    self.note_memory()

        await asyncio.gather(*(worker() for _ in range(at_once)))

    async def retire_all(self) -> None:
        """Retire what still lives."""
        while self._living:
            await self._retire(self._living.popleft())

    async def _step(self, number: int) -> None:
        graph, name = self._random.choice(GRAPHS), f"m{number}"
        try:
            reservation = await reserve(self.repository, graph, name)
            try:
                await put_reserved(self.repository, graph, reservation, seed=number, score=self._random.random())
            except DaskevoError:
                # As the end of an `inherit` block does: what failed may have come before the put.
                await self.repository.connection.session.end(reservation.attempt, settled=False)
                raise
        except DaskevoError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["stored"] += 1
        # Also what has failed, or isn't known: the id is gone, or is to go.
        self._living.append(name)
        if len(self._living) > self._keep:
            await self._retire(self._living.popleft())

    async def _retire(self, name: str) -> None:
        session = self.repository.connection.session
        for _ in range(40):
            # A provider was killed just now: its shards come back.
            with contextlib.suppress(ClusterError):
                with contextlib.suppress(UnknownModel, ModelRetired):
                    await session.retire(ModelId(name))
                return
            await asyncio.sleep(0.5)
        self.outcomes["not retired"] += 1

    def note_memory(self) -> None:
        """Note the memory of this process (scheduler, client, nannies) and of each worker."""
        processes = {"scheduler": os.getpid()}
        processes |= {f"{name} {nanny.pid}": nanny.pid for name, nanny in self._cluster.workers.items() if nanny.pid}
        for name, pid in processes.items():
            with contextlib.suppress(OSError):  # it has ended just now
                self.memory.setdefault(name, []).append((self.done, anonymous_bytes(pid)))


def anonymous_bytes(pid: int) -> int:
    """Return what a process holds in memory beside mapped files, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def growth(memory: dict[str, list[tuple[int, int]]], warm_up: int) -> dict[str, dict[str, float]]:
    """Return what each process that lived long enough had after a warm-up of so many steps, and at the end."""
    found = {}
    for name, samples in memory.items():
        later = [sample for sample in samples if sample[0] >= samples[0][0] + warm_up]
        if len(later) > 1:
            (begun, first), (ended, last) = later[0], later[-1]
            found[name] = {
                "steps": ended - begun,
                "first_mb": round(first / 1e6, 1),
                "last_mb": round(last / 1e6, 1),
                "bytes_per_step": round((last - first) / max(1, ended - begun)),
            }
    return found


def on_disk(root: Path) -> dict[str, int]:
    """Return the bytes of a root's files by kind."""
    found = Counter({"segments": 0, "journals": 0, "others": 0})
    for path in root.rglob("*"):
        if path.is_file():
            journal = path.name.startswith("journal.")
            kind = "segments" if path.parent.name == "segments" else "journals" if journal else "others"
            found[kind] += path.stat().st_size
    return dict(found)


def _kill(client: Any, churn: Churn, steps: int, kills: int, ended: threading.Event) -> None:
    """Kill a provider whenever another share of the steps is done."""
    for number in range(kills):
        while churn.done < steps * (number + 1) / (kills + 1):
            if ended.wait(0.1):
                return
        with contextlib.suppress(Exception):  # it is away just now
            os.kill(client.submit(os.getpid, workers=[f"provider-{number % 2}"], pure=False).result(60), signal.SIGKILL)
            churn.outcomes["kills"] += 1


async def _rest(repository: Any, limit_s: float) -> None:
    """Wait until nothing waits to be settled, then let every provider audit and tidy its shards."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        stats = await _stats(repository.connection.session, 30.0)
        if not stats["unsettled"] and not stats["unserved_shards"]:
            await repository.connection.session.directory.all("audit", timeout_s=60.0)
            stats = await _stats(repository.connection.session, 30.0)
            if not (stats["references"] or stats["staged"]):
                return
        await asyncio.sleep(0.5)


def _of_one_moment(repository: Any, root: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a repository's figures and the bytes of its files: providers shorten journals in the background."""
    while True:
        before, stats = on_disk(root), repository.stats()
        if on_disk(root) == before:
            return stats, before


def _tables(cluster: Any, client: Any) -> dict[str, int]:
    """Return how many entries the tables of the coordinator and of all providers together have."""
    found = Counter({f"scheduler: {path}": n for path, n in sizes(coordinator_of(cluster.scheduler)).items()})
    for answer in client.run(sizes_on).values():
        found.update({f"workers: {path}": n for path, n in answer.items()})
    return dict(found)


def come_and_go(
    root: Path, steps: int, kills: int, *, keep: int = 50, at_once: int = 16, minutes: float = 8.0
) -> dict[str, Any]:
    """Take steps on a cluster of its own; return what is left, and the memory over time."""
    with (
        local_cluster(trainers=1, providers=2, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(3, timeout=120)
        repository = daskevo.open(root, "test", client=client, objective="max score", shards=2)
        churn, ended, begun = Churn(repository, cluster, keep), threading.Event(), time.monotonic()
        tables = [_tables(cluster, client)]
        killer = threading.Thread(target=_kill, args=(client, churn, steps, kills, ended))
        killer.start()
        try:
            connection = repository.connection
            connection.run(churn.run, steps, at_once, begun + 60 * minutes, max(1, steps // SAMPLES))
        finally:
            ended.set()
            killer.join()
        seconds, largest = time.monotonic() - begun, on_disk(root)
        connection.run(churn.retire_all)
        connection.run(_rest, repository, 120.0)
        verification = repository.verify()
        stats, disk = _of_one_moment(repository, root)
        tables.append(_tables(cluster, client))
        names = ("models", "tombstones", "staged", "references", "tensors", "payload_bytes", "file_bytes")
        return {
            "steps": churn.done,
            "seconds": round(seconds, 1),
            "outcomes": dict(churn.outcomes),
            "left": {name: stats[name] for name in (*names, "journal_bytes", "memory_bytes", "unsettled")},
            "live_attempts": stats["live_attempts"],
            "clean": verification.clean,
            "differences": [difference.words for difference in verification.differences][:5],
            "disk_with_models": largest,
            "disk": disk,
            "tables": tables,
            "growth": growth(churn.memory, churn.done // 10),
            "memory": churn.memory,
        }


def main() -> None:
    """Read the arguments, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--root", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = arguments.root or Path(folder) / "root"
        found = come_and_go(
            root, arguments.steps, arguments.kills, at_once=arguments.at_once, minutes=arguments.minutes
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
