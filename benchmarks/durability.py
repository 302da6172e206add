"""What each durability costs a put, beside Keras' `.weights.h5` with and without fsync, in one run.

Run it as ``python -m benchmarks.durability [--turns 7] [--folder FOLDER]``: a cluster of one provider and one
trainer as processes; the trainer puts whole models of random tensors into repositories of each setting, and writes them
with `save_weights`, in turn with each other. It prints medians in milliseconds, and the extremes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import daskevo
from benchmarks.shared.settle import settle
from benchmarks.store.rendezvous import Meeting
from benchmarks.store.tasks import Case, Shape, measure_ours, measure_rival, put_base

SHAPES = (Shape("400 KB", 64, 24), Shape("100 MB", 1024, 25))
PUT = Case("put", "put", 1.0)
H5 = ".weights.h5"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--folder", help="on the disk that is measured")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="daskevo-durability-") as name,
        daskevo.local_cluster(trainers=1, memory_limit=None, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        folder = Path(name)
        ways: dict[str, Any] = {
            "volatile, in memory": daskevo.open(None, client=client, shards=8, timeout_s=120),
            **{
                kept: daskevo.open(folder / kept, client=client, shards=8, durability=kept, timeout_s=120)  # type: ignore[arg-type]
                for kept in ("volatile", "written", "synced")
            },
            H5: False,
            f"{H5}, fsync": True,
        }

        def submit(function: Any, *arguments: Any) -> Any:
            return client.submit(function, *arguments, resources={"evaluation": 1}, pure=False)

        def seconds(shape: Shape, way: Any, base: str | None) -> float:
            with Meeting(folder) as meeting:
                if base is None:
                    task = submit(measure_rival, shape, PUT, H5, str(folder), way, meeting, True)
                else:
                    task = submit(measure_ours, way, shape, PUT, base, meeting)
                meeting.await_ready(1, lambda: task.status == "error")
                settle(shape.nbytes)
                meeting.begin()
                began, ended = task.result()
            return float(ended - began)

        for shape in SHAPES:
            bases = {
                name: None if isinstance(way, bool) else submit(put_base, way, shape, f"base-{shape.width}").result()
                for name, way in ways.items()
            }
            times: dict[str, list[float]] = {name: [] for name in ways}
            for turn in range(options.turns + 1):
                order = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
                for name in order:
                    found = seconds(shape, ways[name], bases[name])
                    if turn:
                        times[name].append(found)
            for name, found in times.items():
                low, high = min(found), max(found)
                middle = statistics.median(found)
                print(f"{shape.name:>8}  {name:20} {1e3 * middle:8.1f} ms  ({1e3 * low:.1f} to {1e3 * high:.1f})")


if __name__ == "__main__":
    main()
