"""Which stage goes first: three policies simulated with measured seconds, for stages one by one and for whole paths.

Run `python -m benchmarks.policies_measured FOLDER` (a few minutes) after `grids_for_real FOLDER`, whose seconds
it takes: of steps by batch size, of work that goes on from a snapshot, of an evaluation. The grids are those that were
trained there, and two of `stage_trees.py`, of 120 epochs, with asynchronous halving on them. Given stage by stage, as
in the paper's comparison (002, section 6.3), a snapshot is read for each. All figures go to FOLDER/policies.json.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import stage_trees
from benchmarks.tuning.arms import Row, keep, kept
from benchmarks.tuning.costs import machine
from benchmarks.tuning.problem import EPOCHS, LONGER, grids
from benchmarks.tuning.tables import summary
from daskevo.tuning import AllAtOnce, GridSpace, SimulatedStudy, simulate
from tests.tuning.studies import AsynchronousHalving, loss, trials_of

TRAINERS = (8, 40)


def spaces() -> dict[str, tuple[GridSpace, int]]:
    """Return spaces and their epochs: the grids that were trained, and larger ones."""
    larger = stage_trees.spaces()
    return {
        **{f"grid of merge rate {word}": (space, EPOCHS) for word, space in grids().items() if word != LONGER},
        **{name: (larger[name], stage_trees.EPOCHS) for name in ("48 trials, early milestones", "240 trials")},
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
                policy: simulate(make(), trainers, costs, policy=policy, batched=batched).makespan_s
                for policy in stage_trees.POLICIES
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


def seconds_from(folder: Path) -> dict[str, float]:
    """Return the seconds measured with the grid of the middle merge rate."""
    found = {row["arm"]: row for row in kept(folder / "grids.json")[1] if row["grid"] == "three"}
    return {**found["alone"]["seconds"], "start_s": found["shared"]["seconds"]["start_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    rows = list(rows_of(seconds_from(given.folder)))
    keep(given.folder / "policies.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
