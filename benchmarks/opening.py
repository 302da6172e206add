"""What a provider takes that opens a repository of many models, audits it and answers: time, memory, pauses.

Run it from the root of the repository as ``python -m benchmarks.opening [--models 100000] [--shards 64]
[--layers 24] [--root FOLDER]``. It fills a root with records of models in lineages of ten, each of which inherits the
first half of its layers; segment files are empty, since neither opening nor the audit reads them. Then one provider,
this process, opens all shards as a coordinator has it do, with the default limits, and audits them.

It prints JSON: seconds, also of the processor, how often it was asked how far it is, the memory that it took (RssAnon),
how long a query takes, and by how much the event loop was late, in milliseconds, at the median, the 99th percentile and
the worst; ``idle`` is by how much it is late on this machine with nothing to do. With ``--again`` the root is there
already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.ten_thousand import anonymous_bytes
from daskevo.client.best_match import Question
from daskevo.client.session import Session
from daskevo.graph import ArchitectureGraph
from daskevo.offline.root import OfflineTransport
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.records import Published, Record, Referred, Staged
from daskevo.provider.host import ShardHost
from daskevo.provider.maintenance import audit
from daskevo.provider.served_shard import open_shard
from daskevo.provider.shard_openings import OPENINGS_AT_ONCE
from daskevo.store.root import Root
from daskevo.store.shard_state import read_epoch
from daskevo.store.tiers import DurableTensors
from daskevo.types import ModelId, Tick
from tests.cluster.helpers import chain

LINEAGE, QUESTIONS, OPEN_TIMEOUT_S = 10, 100, 15.0
TICK_S = 0.002


def fill(root: Root, models: int, layers: int) -> list[ArchitectureGraph]:
    """Write the journals of so many models; return the graphs of some."""
    random.seed(1)
    journals: dict[int, list[Record]] = {shard: [] for shard in range(root.shards)}
    bits: dict[int, list[Record]] = {shard: [] for shard in range(root.shards)}
    graphs: list[ArchitectureGraph] = []
    widths: list[int] = []
    parent: ModelRecord | None = None
    for number in range(models):
        if number % LINEAGE == 0:
            widths, parent = [random.randrange(4, 500) for _ in range(layers)], None
        else:
            widths = [*widths[: layers // 2], *(random.randrange(4, 500) for _ in range(layers - layers // 2))]
        graph = chain(*widths)
        if len(graphs) < QUESTIONS and number % max(1, models // QUESTIONS) == 0:
            graphs.append(graph)
        model, attempt = ModelId(f"model-{number:07d}"), Tick(1, number + 1)
        inherited = layers // 2 * 2 if parent is not None else 0  # kernel and bias of each layer
        entries = [
            parent.owner_map.entries[n]
            if parent is not None and n < inherited
            else OwnerEntry(model, n, f"{number:016x}{n:016x}", 1)
            for n in range(len(graph.tensors))
        ]
        own = {n: graph.tensors[n].spec for n in range(inherited, len(graph.tensors))}
        record = ModelRecord(
            model, attempt, "test", graph.text, OwnerMap(tuple(entries)), own, attempt, "max score", number / models,
            {"score": number / models}, 1, None, None if parent is None else parent.model_id,
        )  # fmt: skip
        shard = shard_of(model, root.shards)
        journals[shard] += [Staged(record, record.own_bytes), Published(model, attempt, {"user:kept": attempt})]
        for owner, numbers in record.inherited.items():
            bits[shard_of(owner, root.shards)].append(Referred(owner, model, attempt, numbers))
        folder = root.shard(shard).segments_path
        folder.mkdir(parents=True, exist_ok=True)
        root.shard(shard).segment_path(model, attempt).touch()
        parent = record
    for shard, records in journals.items():
        folder = root.shard(shard)
        open_shard(folder, shard, 1, Tick(0, 0))
        for start in range(0, len(records), 512):
            folder.append([record.to_json() for record in records[start : start + 512]], flush=False)
        folder.append([record.to_json() for record in bits[shard]])
        folder.close()
    root.mark_served()
    return graphs


@asynccontextmanager
async def pauses(found: dict[str, Any], name: str) -> AsyncIterator[None]:
    """Note how long the block takes, and by how much the event loop is late meanwhile."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(TICK_S)
            late.append(1000 * (time.perf_counter() - begun - TICK_S))

    ticker, begun, processor = asyncio.ensure_future(tick()), time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        seconds = time.perf_counter() - begun
        ticker.cancel()
        late = sorted(late) or [0.0]
        found[name] = {
            "seconds": round(seconds, 2),
            "processor_seconds": round(time.process_time() - processor, 2),
            "late_ms": {
                "median": round(statistics.median(late), 1),
                "p99": round(late[int(0.99 * (len(late) - 1))], 1),
                "worst": round(late[-1], 1),
            },
        }


async def serve(root: Root, graphs: list[ArchitectureGraph]) -> dict[str, Any]:
    """Open, audit, answer, close; return what it took."""
    found: dict[str, Any] = {}
    generation = 1 + max(read_epoch(root.shard(number).path).generation for number in range(root.shards))
    transport = OfflineTransport(root, generation, all_over=True)

    def locate(model_id: ModelId, attempt: Tick) -> Path:
        return root.shard(shard_of(model_id, root.shards)).segment_path(model_id, attempt)

    host = transport.host = ShardHost("here", root, DurableTensors(locate, 1 << 20), Session(transport, 20), alone=True)
    await asyncio.to_thread(host.models.index.warm)
    async with pauses(found, "idle"):
        await asyncio.sleep(3)
    before, asked = anonymous_bytes(os.getpid()), 0
    async with pauses(found, "opening"):
        for start in range(0, root.shards, OPENINGS_AT_ONCE):
            left = list(range(start, min(start + OPENINGS_AT_ONCE, root.shards)))
            while left:
                answer = await host.open_shards(left, generation, [], OPEN_TIMEOUT_S)
                assert not answer["failed"], answer["failed"][:1]
                asked += 1
                left = [shard for shard, *_ in answer["under_way"]]
    found["asked"] = asked
    await host.at_rest(3600)  # what each shard's first audit takes is counted below
    found["models"] = len(host.models.nbytes)
    found["memory_bytes_per_model"] = round((anonymous_bytes(os.getpid()) - before) / len(host.models.nbytes))
    async with pauses(found, "audit"):
        assert await audit(host) == 0
    questions = [Question.of(graph).to_wire() for graph in graphs]
    seconds = []
    for question in questions:
        begun = time.perf_counter()
        host.models.best_many("test", [question])
        seconds.append(time.perf_counter() - begun)
    found["query_ms"] = round(1000 * statistics.median(seconds), 3)
    async with pauses(found, "closing"):
        await host.close_shards(range(root.shards))
    await host.close()
    return found


def main() -> None:
    """Read the arguments, run, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", type=int, default=100_000)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.root or Path(folder) / "root"
        if arguments.again:
            root, graphs = Root.open(path), [chain(*range(4, 4 + arguments.layers))]
        else:
            root, begun = Root.create(path, shards=arguments.shards), time.perf_counter()
            graphs = fill(root, arguments.models, arguments.layers)
            print(f"written in {time.perf_counter() - begun:.1f} s", file=sys.stderr)
        journals = sum(path.stat().st_size for path in root.path.rglob("journal.*"))
        found = {"layers": arguments.layers, "journal_bytes": journals}
        print(json.dumps({**found, **asyncio.run(serve(root, graphs))}))


if __name__ == "__main__":
    main()
