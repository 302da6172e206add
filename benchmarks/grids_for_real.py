"""Grids for real: what sharing equal steps saves against each trial by itself, and against Optuna's grid sampler.

Run `python -m benchmarks.grids_for_real FOLDER` on a quiet machine; started again, it goes on after the arms that
are finished. Three grids of `tuning/problem.py`, each four times, each time on a cluster of its own: *shared*; *alone*,
where each trial has a constant of its own that keeps it apart, bit for bit the same training; *stages*, shared, but
trainers are given single stages, and read the snapshot for each; *optuna*, plain Keras. The last one once more with
longer epochs, *shared* and *alone*. All figures go to FOLDER/grids.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.tuning import optuna_grid
from benchmarks.tuning.alone import Alone
from benchmarks.tuning.arms import Row, arm, done, keep
from benchmarks.tuning.costs import machine, seconds_of
from benchmarks.tuning.problem import EPOCHS, LONGER, grids
from benchmarks.tuning.tables import summary
from benchmarks.tuning.training import PROBLEM, PROBLEMS, train
from daskevo.search import Grid
from daskevo.tuning import AllAtOnce, Trajectory, Trial, count_steps, simulate

ARMS = ("shared", "alone", "stages", "optuna")


def measure(folder: Path, name: str, word: str, epochs: int, trainers: int) -> None:
    """Be the process of an arm."""
    space = grids()[name]
    one = Alone.of(space) if word == "alone" else space
    problem = PROBLEMS.get(name, PROBLEM)
    done(folder, train(folder, {"run": (one, Grid)}, epochs, trainers, problem=problem, batched=word != "stages"))


def measured(folder: Path, name: str, word: str, epochs: int, trainers: int) -> dict[str, Any]:
    """Return the figures of an arm."""
    module = optuna_grid.__name__ if word == "optuna" else __spec__.name
    words = ["--epochs", str(epochs), "--trainers", str(trainers)]
    words += ["--grid", name] if word == "optuna" else ["--grids", name, "--arm", word]
    return arm(folder / name / word, module, *words)


def rows_of(name: str, found: dict[str, dict[str, Any]], epochs: int) -> list[Row]:
    """Return a grid's rows: those of its own arms with what the simulator says of them."""
    space = grids()[name]
    trials = [Trial(f"trial-{at}", space.configuration(each), epochs) for at, each in enumerate(space.enumerate())]
    steps = count_steps([(Trajectory("any", trial.configuration), trial.until) for trial in trials])
    # Of all arms, as stages of one batch size are in that of stages only.
    ours = [figures for word, figures in found.items() if word != "optuna"]
    costs = seconds_of(
        [work for figures in ours for work in figures["works"]], sum(figures["answers"] for figures in ours)
    )
    rows = []
    for word, figures in found.items():
        row = {"part": "grids", "grid": name, "arm": word, "trials": len(trials), "merge_rate": steps.merge_rate}
        if word == "optuna":
            rows.append({**row, **figures})
            continue
        own = seconds_of(figures["works"], figures["answers"])
        start_s = own["build_s"] if word == "alone" else own["start_s"]
        said = simulate(
            AllAtOnce(tuple(trials)),
            figures["trainers"],
            machine(costs, start_s),
            shared=word != "alone",
            batched=word != "stages",
        )
        same = [one == found["alone"]["trials"][trial] for trial, one in figures["trials"].items()]
        rows.append(
            {
                **row,
                **{key: value for key, value in figures.items() if key not in ("trials", "works", "answers")},
                "unique_steps": steps.unique,
                "best": min(quality for _, quality, _ in figures["trials"].values()),
                "identical": sum(same),
                "works": len(figures["works"]),
                "seconds": {**own, "step_s": costs["step_s"], "batch_s": costs["batch_s"]},
                "simulated_s": said.makespan_s,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--grids", nargs="+", choices=grids(), default=list(grids()))
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--arm", choices=ARMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    size = given.epochs, given.trainers
    if given.arm:
        measure(given.folder, given.grids[0], given.arm, *size)
        return
    rows = []
    for name in given.grids:
        words = ARMS[:2] if name == LONGER else ARMS
        found = {word: measured(given.folder / "grids", name, word, *size) for word in words}
        rows += rows_of(name, found, given.epochs)
        keep(given.folder / "grids.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
