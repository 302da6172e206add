"""What a snapshot costs, put and read, beside `numpy.savez` and `numpy.load` of the same arrays on the same disk.

Run it as ``python -m benchmarks.snapshots [--turns 9] [--folder FOLDER] [--profile]``: a cluster of one provider
and one trainer as processes; one task on the trainer puts and reads in turn with numpy, and prints medians in
milliseconds and the ratio of numpy's to ours. The models have 24 Dense layers of 1, 10 and 50 MB, and Adam's two slots
for each weight: a snapshot has three times as many bytes. `frozen half` is put with a base that has the first half of
the layers; `again` with one that has all, as after a second evaluation of a stored state: what that adds to the disk is
printed too. What is read is copied, by either, as a framework does that goes on from it.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import platform
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import daskevo
from daskevo.graph import ArchitectureGraph
from daskevo.repository import Snapshot

LAYERS = 24
MEGABYTES = (1, 10, 50)


def graph_of(megabytes: int) -> ArchitectureGraph:
    """Return the architecture graph of a chain of Dense layers with so many MB of weights."""
    import keras

    from daskevo.models import flatten, shape_only

    width = round((megabytes * 2**20 / 4 / LAYERS) ** 0.5)
    with shape_only():
        inputs = flow = keras.Input((width,))
        for _ in range(LAYERS):
            flow = keras.layers.Dense(width, activation="relu")(flow)
        return flatten(keras.Model(inputs, flow)).graph


def trained(graph: ArchitectureGraph, seed: int, before: Snapshot | None = None) -> Snapshot:
    """Return a state; `before` gives the first half of its tensors and slots."""
    rng = np.random.default_rng(seed)
    count = len(graph.tensors)
    arrays: list[list[Any]] = [[], [], []]
    for number, key in enumerate(graph.tensors):
        for kind in range(3):
            old = None
            if before is not None and number < count // 2:
                old = before.weights[number] if kind == 0 else before.attached[_slot(number, kind)]
            arrays[kind].append(rng.random(key.spec.shape, np.float32) if old is None else old)
    slots = {_slot(number, kind): arrays[kind][number] for number in range(count) for kind in (1, 2)}
    attached = {**slots, "optimizer/iterations": np.array(seed), "random/0000": np.zeros(2, np.uint32)}
    return Snapshot(graph, tuple(arrays[0]), attached, {"step": seed, "trajectory": f"{seed:032x}"})


def _slot(number: int, kind: int) -> str:
    return f"optimizer/{number:04d}-{kind}"


def copied(snapshot: Snapshot) -> int:
    """Copy all arrays, as who goes on from them does; return their bytes."""
    return sum(np.array(array).nbytes for array in (*snapshot.weights, *snapshot.attached.values()))


def measure(repository: Any, graph: ArchitectureGraph, folder: str, turns: int, profile: bool) -> dict[str, Any]:
    """Run in one task: put and read in turn with numpy; return seconds by what was done, and bytes."""
    seconds: dict[str, list[float]] = {}
    profiler = cProfile.Profile()
    path = Path(folder) / "rival.npz"

    def timed(name: str, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        found = work(*arguments, **options)
        seconds.setdefault(name, []).append(time.perf_counter() - started)
        return found

    def put(name: str, snapshot: Snapshot, base: str | None) -> Any:
        return timed(name, repository.put_snapshot, snapshot, step=1, base=base, labels=["cache:bench"])

    def read_ours(name: str) -> int:
        return copied(repository.read_snapshot(name))

    def read_rival() -> None:
        with np.load(path) as stored:
            for name in stored.files:
                np.array(stored[name])

    added: list[dict[str, int]] = []
    for turn in range(turns + 1):
        first = trained(graph, 2 * turn)
        rest = trained(graph, 2 * turn + 1, first)
        rival = {f"w{number}": array for number, array in enumerate(first.weights)} | dict(first.attached)
        if profile:
            profiler.enable()
        name = put("put", first, None)
        half = put("put, frozen half", rest, name)
        before = repository.stats()
        again = put("put, again", rest, half)
        after = repository.stats()
        added.append({kind: after[kind] - before[kind] for kind in ("payload_bytes", "file_bytes", "journal_bytes")})
        timed("read", read_ours, name)
        profiler.disable()
        timed("numpy put", np.savez, path, **rival)
        timed("numpy read", read_rival)
        path.unlink()
        for stored in (name, half, again):
            repository.retire(stored)
        repository.stats()
    text = io.StringIO()
    if profile:
        pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(40)
    # The first turn warms both.
    return {
        "seconds": {name: statistics.median(found[1:]) for name, found in seconds.items()},
        "added": added[-1],
        "profile": text.getvalue(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--folder", help="on the disk that is measured")
    parser.add_argument("--profile", action="store_true", help="print where the task's thread spends its time")
    options = parser.parse_args()
    graphs = {size: graph_of(size) for size in MEGABYTES}
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="daskevo-snapshots-") as folder,
        daskevo.local_cluster(trainers=1, memory_limit=None, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        repository = daskevo.open(Path(folder) / "root", client=client, shards=8)
        print(f"{platform.node()}, {platform.machine()}, Python {platform.python_version()}; {options.turns} turns")
        print(f"{'weights':>8s} {'operation':18s} {'ms':>9s} {'numpy, ms':>10s} {'ratio':>6s}")
        for size, graph in graphs.items():
            task = client.submit(
                measure, repository, graph, folder, options.turns, options.profile, resources={"evaluation": 1}
            )
            found = task.result()
            seconds = found["seconds"]
            for name in ("put", "put, frozen half", "put, again", "read"):
                rival = seconds["numpy read" if name == "read" else "numpy put"]
                ours = seconds[name]
                print(f"{size:5d} MB {name:18s} {1000 * ours:9.1f} {1000 * rival:10.1f} {rival / ours:6.2f}")
            said = ", ".join(f"{kind} {count:,}" for kind, count in found["added"].items())
            print(f"         a second evaluation adds {said}")
            if options.profile:
                print(found["profile"])


if __name__ == "__main__":
    main()
