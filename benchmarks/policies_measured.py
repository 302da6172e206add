"""Which stage goes first: three policies simulated with measured seconds, for stages one by one and for whole paths.

Run `python -m benchmarks.policies_measured FOLDER` (a few minutes) after `grids_for_real FOLDER`, whose seconds
it takes: of steps by batch size, of work that goes on from a snapshot, of an evaluation. The grids are those that were
trained there, and two of `stage_trees.py`, of 120 epochs, with asynchronous halving on them. Given stage by stage, as
in the paper's comparison (002, section 6.3), a snapshot is read for each. *Queued* is its scheduler, in which a stage
keeps its place in the queue (section 4.3). What asynchronous halving asks for depends on who comes first, so that
single runs differ by luck: it is repeated with other losses and in another order. All figures go to
FOLDER/policies.json.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import stage_trees
from benchmarks.tuning.arms import Row, keep, kept
from benchmarks.tuning.costs import machine
from benchmarks.tuning.problem import EPOCHS, LONGER, grids
from benchmarks.tuning.tables import summary
from daskevo.tuning import AllAtOnce, Configuration, GridSpace, Policy, SimulatedStudy, simulate
from tests.tuning.studies import AsynchronousHalving, loss, trials_of

TRAINERS = (8, 40)
FEW = (4, 8)
"""Trainers of asynchronous halving again and again: 40 have nothing to choose from."""
SEEDS = 12

ARMS: Mapping[str, tuple[Policy, bool]] = {
    **{policy: (policy, False) for policy in stage_trees.POLICIES},
    "critical path, queued": ("critical path", True),
    "breadth first, queued": ("breadth first", True),
}
"""Policies, and whether stages keep their places in a queue."""

LARGER = ("48 trials, early milestones", "240 trials")


def spaces() -> dict[str, tuple[GridSpace, int]]:
    """Return spaces and their epochs: the grids that were trained, and larger ones."""
    larger = stage_trees.spaces()
    return {
        **{f"grid of merge rate {word}": (space, EPOCHS) for word, space in grids().items() if word != LONGER},
        **{name: (larger[name], stage_trees.EPOCHS) for name in LARGER},
    }


def studies_of(space: GridSpace, epochs: int) -> Iterator[tuple[str, Callable[[], SimulatedStudy]]]:
    """Yield strategies by name, each made anew for each simulation."""
    trials = trials_of(space, epochs)
    yield "grid", lambda: AllAtOnce(tuple(trials))
    if epochs == stage_trees.EPOCHS:
        configurations = [trial.configuration for trial in trials]
        yield ("asynchronous halving", lambda: AsynchronousHalving(configurations, stage_trees.RUNGS, stage_trees.KEEP))


def rows_of(seconds: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each space, strategy, number of trainers, and way of giving: seconds by policy."""
    costs = machine(seconds, seconds["start_s"], loss)
    for name, (space, epochs) in spaces().items():
        rate = stage_trees.merge_rate(trials_of(space, epochs))
        for (strategy, make), trainers, batched in itertools.product(
            studies_of(space, epochs), TRAINERS, (False, True)
        ):
            ends = {
                arm: simulate(make(), trainers, costs, policy=policy, batched=batched, queued=queued).makespan_s
                for arm, (policy, queued) in ARMS.items()
                if not (batched and queued)
            }
            yield {
                "part": "policies",
                "space": name,
                "merge_rate": rate,
                "strategy": strategy,
                "trainers": trainers,
                "given": "paths" if batched else "stages",
                "ran_s": ends,
            }


def again_and_again(seconds: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each larger space, number of trainers and of trials at once: least, median and most by arm.

    Each seed has other losses, and begins the trials in another order; ratios are to critical path with the same seed.
    """
    for name, trainers, at_once in itertools.product(LARGER, FEW, (None, 2)):
        trials = trials_of(stage_trees.spaces()[name], stage_trees.EPOCHS)
        ratios: dict[str, list[float]] = {arm: [] for arm in ARMS}
        for seed in range(SEEDS):
            costs = machine(seconds, seconds["start_s"], partial(_drawn, seed))
            order = random.Random(seed).sample(trials, len(trials))
            ends = {
                arm: simulate(
                    AsynchronousHalving(
                        [trial.configuration for trial in order],
                        stage_trees.RUNGS,
                        stage_trees.KEEP,
                        at_once and at_once * trainers,
                    ),
                    trainers,
                    costs,
                    policy=policy,
                    batched=False,
                    queued=queued,
                ).makespan_s
                for arm, (policy, queued) in ARMS.items()
            }
            for arm, end in ends.items():
                ratios[arm].append(end / ends["critical path"])
        yield {
            "part": "promotions",
            "space": name,
            "trainers": trainers,
            "at_once": at_once and at_once * trainers,
            "seeds": SEEDS,
            "ratios": {arm: [min(each), statistics.median(each), max(each)] for arm, each in ratios.items()},
        }


def _drawn(seed: int, configuration: Configuration, step: int) -> Mapping[str, float]:
    digest = hashlib.blake2b(f"{seed} {configuration.key(step)}".encode(), digest_size=6).digest()
    return {"loss": int.from_bytes(digest) / 2**48}


def seconds_from(folder: Path) -> dict[str, float]:
    """Return the seconds measured with the grid of the middle merge rate."""
    found = {row["arm"]: row for row in kept(folder / "grids.json")[1] if row["grid"] == "three"}
    return {**found["alone"]["seconds"], "start_s": found["shared"]["seconds"]["start_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    seconds = seconds_from(given.folder)
    rows = [*rows_of(seconds), *again_and_again(seconds)]
    keep(given.folder / "policies.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
