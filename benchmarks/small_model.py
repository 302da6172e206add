"""What the repository costs a small model of an architecture search: inherit and put, by phase.

Run it as ``python -m benchmarks.small_model [--count 120] [--root FOLDER | --memory] [--profile]``: it starts a
cluster of its own, one provider and one trainer as processes, and prints medians in milliseconds. Each model has 24
Dense layers and about 100,000 parameters; each child shares about half of its layers with the best match. Every other
one is asked for early, as a search does: its graph is known, with what is loaded into it (that takes no part in the
times), and what it inherits is reserved while it is built. `build` in both columns says what that costs there.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import io
import platform
import pstats
import random
import statistics
import tempfile
import time
from typing import Any

import daskevo

LAYERS = 24
WIDTH = 64


def build(cut: int, width: int) -> Any:
    """Return a chain of Dense layers; from layer `cut` on it shares nothing with chains of another `width`."""
    import keras

    inputs = flow = keras.Input((WIDTH,))
    for number in range(LAYERS):
        flow = keras.layers.Dense(width if number == cut else WIDTH, activation="relu")(flow)
    return keras.Model(inputs, flow)


def change(model: Any) -> None:
    """Stand for training: all weights that train get other values."""
    for variable in model.trainable_variables:
        variable.assign(variable + 1)


def shape(number: int) -> tuple[int, int]:
    """Return what `build` takes for the model of a number."""
    return random.Random(number).randrange(LAYERS), 48 + number


def graph_of(number: int) -> Any:
    """Return the architecture graph of the model of a number, which says that no weights are loaded into it."""
    from daskevo.models import flatten, given_weights, shape_only

    with shape_only():
        flat = flatten(build(*shape(number)))
        return flat.graph.started(given_weights(flat))


def one(repository: Any, number: int, graph: Any) -> dict[str, float]:
    """Inherit and put one model; return seconds by phase. With its graph, what it inherits is reserved early."""
    wish: dict[str, Any] = {"model_id": f"m-{number}"}
    with contextlib.ExitStack() as stack:
        begun = time.perf_counter()
        if graph is not None:
            wish = {"reserved": stack.enter_context(repository.reserve(graph, knows_loaded=True, **wish))}
        reserving = time.perf_counter()
        model = build(*shape(number))
        started = time.perf_counter()
        child = stack.enter_context(repository.inherit(model, **wish))
        inherited = time.perf_counter()
        change(model)
        trained = time.perf_counter()
        child.put(metrics={"score": number / 1e3}, labels=["population:run"])
        stored = time.perf_counter()
    ended = time.perf_counter()
    return {
        "build": started - reserving,
        "inherit": inherited - started + reserving - begun,
        "put": stored - trained,
        "leave": ended - stored,
        "prefix": len(child.prefix.vertices),
        **{f"  {name}": seconds for name, seconds in child.timings.items()},
    }


def many(
    repository: Any, count: int, first: int, graphs: dict[int, Any], profile: bool
) -> tuple[list[dict[str, float]], str]:
    """Run in one task: make `count` models one after the other."""
    profiler = cProfile.Profile()
    rows = []
    for number in range(first, first + count):
        if profile:
            profiler.enable()
        rows.append(one(repository, number, graphs.get(number)))
        profiler.disable()
    text = io.StringIO()
    if profile:
        pstats.Stats(profiler, stream=text).sort_stats("cumulative").print_stats(60)
    return rows, text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=120, help="models in all")
    parser.add_argument("--root", help="folder of the repository; a temporary one when left out")
    parser.add_argument("--memory", action="store_true", help="a repository in memory")
    parser.add_argument("--profile", action="store_true", help="print where the task's thread spends its time")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.root) as folder,
        daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        client.wait_for_workers(2)
        repository = daskevo.open(None if options.memory else folder, "small", client=client, objective="max score")
        resources = {"evaluation": 1}
        # In this process, so that the trainer sees each model for the first time, as in a search.
        graphs = {number: graph_of(number) for number in range(1, 10 + options.count, 2)}
        client.submit(many, repository, 10, 0, graphs, False, resources=resources).result()
        task = client.submit(many, repository, options.count, 10, graphs, options.profile, resources=resources)
        rows, text = task.result()
        print(f"{platform.node()}, {platform.machine()}, Python {platform.python_version()}; {options.count} models")
        print(f"{'median (mean)':14s} {'built first':>18s} {'reserved early':>18s}")
        for name in dict.fromkeys(name for row in rows for name in row):
            scale = 1 if name == "prefix" else 1000
            columns = [[scale * row.get(name, 0.0) for row in rows[way::2]] for way in (0, 1)]
            said = (f"{statistics.median(found):9.2f} ({statistics.mean(found):6.2f})" for found in columns)
            print(f"{name:14s} {' '.join(said)}")
        print(text)


if __name__ == "__main__":
    main()
