"""Train every candidate of the table's space, and write the table: ``python -m daskevo_workflows.tabular.make``.

The space is that of the problem `digits`, on its data and with its recipe, by numpy (see
:mod:`daskevo_workflows.tabular.dense`): ten seconds for all of it. Each architecture is trained once per seed, from
fresh weights; candidates that differ in where a layer is missing have the same architecture.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from daskevo.space import Candidate, Space
from daskevo.types import JSON
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.problems.digits import Digits
from daskevo_workflows.tabular.dense import Chains, Layers
from daskevo_workflows.tabular.table import FORMAT, SHIPPED, VERSION, load_table

SETTINGS: dict[str, Any] = {"depth": 3, "widths": [4, 12, 32], "epochs": 5, "batch_size": 32}
"""Three layers that may be missing, of widths that may be bottlenecks: 7**3 = 343 candidates, 259 architectures."""
SEEDS = 3


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(prog="python -m daskevo_workflows.tabular.make", description=__doc__)
    parser.add_argument("--out", type=Path, default=SHIPPED, help="the table's file")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="trainings of each architecture")
    options = parser.parse_args(arguments)
    make(options.out, options.seeds)
    sys.stderr.write(f"written: {options.out}, {options.out.stat().st_size} bytes\n")


def make(out: Path, seeds: int = SEEDS, settings: dict[str, Any] | None = None) -> None:
    """Train all candidates, and write the table to `out`.

    Parameters
    ----------
    settings:
        Of the problem; None = those of the table that comes with daskevo.
    """
    settings = SETTINGS if settings is None else settings
    problem = Digits(**settings)
    space = problem.space()
    found: dict[str, Layers] = {}
    names: list[str] = []
    for candidate in space.enumerate():
        layers = layers_of(space, candidate)
        names.append(architecture_id(layers))
        found.setdefault(names[-1], layers)
    places = {name: place for place, name in enumerate(found)}
    value: dict[str, JSON] = {
        "format": FORMAT,
        "version": VERSION,
        "problem": {"name": problem.name, "settings": settings},
        "objective": problem.objective,
        "space": space.to_json(),
        "epochs": problem.epochs,
        "steps_per_epoch": math.ceil(len(problem.data().train[0]) / problem.batch_size),
        "seeds": list(range(seeds)),
        "recipe": {
            "command": f"python -m daskevo_workflows.tabular.make --seeds {seeds}",
            "training": f"numpy; weights by Glorot, Adam {problem.learning_rate:g}, fresh for each seed",
            "quality": "share of the 360 validation digits that are named right, after each epoch",
            "machine": machine_line(("numpy", "scikit-learn")),
            "made": time.strftime("%Y-%m-%d"),
        },
        "candidates": [places[name] for name in names],
        "architectures": [{"id": name, **train(problem, layers, range(seeds))} for name, layers in found.items()],
    }
    text = json.dumps(value, separators=(",", ":"))
    # A line for each architecture: such a file can be read, and its changes, too.
    for part in ('{"id"', '"candidates"', '"recipe"'):
        text = text.replace(part, f"\n{part}")
    written = out.with_name(f"{out.name}.new")
    written.write_text(text + "\n")
    # What can't be read again never takes the table's place.
    load_table(written)
    written.replace(out)


def layers_of(space: Space, candidate: Candidate) -> Layers:
    """Return the layers that a candidate of `digits` has."""
    return [(node[0], node[1]) for node in space.values(candidate).values() if node is not None]


def architecture_id(layers: Layers) -> str:
    """Return the digest by which the table knows an architecture."""
    return hashlib.blake2b(json.dumps(list(map(list, layers))).encode(), digest_size=16).hexdigest()


def train(problem: Digits, layers: Layers, seeds: Sequence[int]) -> dict[str, JSON]:
    """Train one architecture, as often as there are seeds.

    Returns
    -------
    dict
        ``parameters``; CPU ``seconds`` of each training, alike for all; ``qualities`` after each epoch, for each seed.
    """
    data = problem.data()
    (x, y), validation = data.train, data.validation
    # Architectures draw independently: one seed doesn't give all of them related weights.
    number = int(architecture_id(layers)[:8], 16)
    generators = [np.random.default_rng([seed, number]) for seed in seeds]
    # CPU time: what else runs on the machine doesn't count.
    begun = time.process_time()
    networks = Chains(x.shape[1], layers, 10, generators)
    qualities: list[list[float]] = [[] for _ in seeds]
    for _ in range(problem.epochs):
        order = np.stack([rng.permutation(len(x)) for rng in generators])
        for begin in range(0, len(x), problem.batch_size):
            batch = order[:, begin : begin + problem.batch_size]
            networks.step(x[batch], y[batch], problem.learning_rate)
        for reached, quality in zip(qualities, networks.accuracies(*validation), strict=True):
            reached.append(round(quality, 6))
    seconds = round((time.process_time() - begun) / len(seeds), 4)
    return {"parameters": networks.parameters, "seconds": [seconds] * len(seeds), "qualities": qualities}


if __name__ == "__main__":
    main()
