"""One study and two at once for real, four and eight simulated: what they save together (the paper's figures 6.2, 6.3).

Run `python -m benchmarks.studies_for_real FOLDER` on a quiet machine; started again, it goes on after the arms
that are finished. Two sets of studies of learning rates and batch sizes: neighbours have half of their rates in common
(*much*), or a quarter of them, and other batch sizes (*little*). For real: 12 trials of 16 epochs each; by the
simulator, with the seconds that were measured: 12 of 16, and 144, as in the paper, of 60. All figures go to
FOLDER/studies.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tuning.alone import Alone
from benchmarks.tuning.arms import Row, arm, done, keep
from benchmarks.tuning.costs import machine, seconds_of
from benchmarks.tuning.problem import RATE
from benchmarks.tuning.tables import summary
from benchmarks.tuning.training import train
from daskevo.search import Grid
from daskevo.tuning import (
    AllAtOnce,
    Constant,
    Exponential,
    GridSpace,
    MultiStep,
    StepSequence,
    Trajectory,
    Trial,
    count_steps,
    grid,
    simulate,
    warmup,
)

SETS = ("much", "little")
FIRST_RATES = (RATE, 0.8 * RATE, 0.6 * RATE, 0.4 * RATE)


class Size(NamedTuple):
    """Of a study: learning rates, batch sizes, epochs."""

    rates: int
    sizes: int
    epochs: int


REAL = Size(4, 3, 16)
MANY = Size(12, 12, 60)


def space(kind: str, number: int, size: Size) -> GridSpace:
    """Return the space of one study of a set."""
    first = [RATE if kind == "much" or rate % 4 == 3 else FIRST_RATES[number % 4] for rate in range(size.rates)]
    rates = [_rate(rate + number * size.rates // 2, first[rate], size.epochs) for rate in range(size.rates)]
    shift = number if kind == "little" else 0
    doubled = [size.epochs // 4 + 7 * (shift + at) % (size.epochs // 2) for at in range(size.sizes - 1)]
    sizes = [Constant(32), *(MultiStep(32, (at,), 2) for at in doubled)]
    return grid(learning_rate=rates, batch_size=sizes, unit="epoch", name=f"{kind}-{number}")


def _rate(number: int, first: float, epochs: int) -> StepSequence:
    at, up = epochs // 4 + 7 * number % (epochs // 2), epochs // 10
    return (
        MultiStep(first, (at,), 0.1),
        MultiStep(first, (at, at + epochs // 8), 0.1),
        warmup(first / 5, up, MultiStep(first, (at,), 0.1)),
        warmup(first / 5, up, Exponential(first, 0.8 + 0.01 * (number // 4))),
    )[number % 4]


def trials_of(kind: str, number: int, size: Size) -> list[Trial]:
    one = space(kind, number, size)
    return [Trial(f"{number}-{at}", one.configuration(each), size.epochs) for at, each in enumerate(one.enumerate())]


def measure(given: argparse.Namespace) -> None:
    """Be the process of an arm."""
    kind, count, way = given.arm.split(":")
    spaces = {f"study-{number}": space(kind, number, REAL) for number in range(int(count))}
    if way == "alone":
        spaces = {name: Alone.of(one, name) for name, one in spaces.items()}
    studies = {name: (one, Grid) for name, one in spaces.items()}
    done(given.folder, train(given.folder, studies, REAL.epochs, given.trainers))


def simulated(kind: str, count: int, size: Size, trainers: int, costs: dict[str, float], start_s: float) -> Row:
    """Return what the simulator says of so many studies: together, and each trial by itself."""
    studies = {f"study-{number}": trials_of(kind, number, size) for number in range(count)}
    all_at_once = {name: AllAtOnce(tuple(trials)) for name, trials in studies.items()}
    shared = simulate(all_at_once, trainers, machine(costs, start_s))
    alone = simulate(all_at_once, trainers, machine(costs, costs["build_s"]), shared=False)
    return {
        **about(kind, count, size),
        "how": "simulated",
        "trainers": trainers,
        "trained_steps": shared.trained_steps,
        "busy_s": shared.busy_s,
        "alone_busy_s": alone.busy_s,
        "ran_s": shared.makespan_s,
        "alone_ran_s": alone.makespan_s,
    }


def about(kind: str, count: int, size: Size) -> Row:
    """Return what is known before anything is trained: steps, and the merge rate of all studies together."""
    trials = [trial for number in range(count) for trial in trials_of(kind, number, size)]
    steps = count_steps([(Trajectory("any", trial.configuration), trial.until) for trial in trials])
    return {
        "part": "studies",
        "set": kind,
        "studies": count,
        "trials": len(trials),
        "epochs": size.epochs,
        "total_steps": steps.total,
        "unique_steps": steps.unique,
        "merge_rate": steps.merge_rate,
    }


def real(kind: str, count: int, shared: dict[str, Any], alone: dict[str, Any]) -> Row:
    """Return what so many studies came to on a cluster."""

    def busy_s(figures: dict[str, Any]) -> float:
        return figures["training_s"] + figures["start_s"] + figures["scoring_s"]

    return {
        **about(kind, count, REAL),
        "how": "real",
        "trainers": shared["trainers"],
        "trained_steps": shared["trained_steps"],
        "alone_trained_steps": alone["trained_steps"],
        "training_s": shared["training_s"],
        "alone_training_s": alone["training_s"],
        "busy_s": busy_s(shared),
        "alone_busy_s": busy_s(alone),
        "ran_s": shared["ran_s"],
        "alone_ran_s": alone["ran_s"],
        "wall_s": shared["wall_s"],
        "alone_wall_s": alone["wall_s"],
        "identical": sum(one == alone["trials"][trial] for trial, one in shared["trials"].items()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        measure(given)
        return
    rows: list[Row] = []
    for kind in given.sets:
        found = {
            (count, way): arm(
                given.folder / "studies" / f"{kind}-{count}-{way}",
                __spec__.name,
                *("--trainers", str(given.trainers), "--arm", f"{kind}:{count}:{way}"),
            )
            for count in (1, 2)
            for way in ("shared", "alone")
        }
        rows += [real(kind, count, found[count, "shared"], found[count, "alone"]) for count in (1, 2)]
        works = {way: found[1, way]["works"] + found[2, way]["works"] for way in ("shared", "alone")}
        answers = {way: found[1, way]["answers"] + found[2, way]["answers"] for way in ("shared", "alone")}
        costs = seconds_of(works["alone"], answers["alone"])
        start_s = seconds_of(works["shared"], answers["shared"])["start_s"]
        for size, trainers in ((REAL, given.trainers), (MANY, 40)):
            rows += [simulated(kind, count, size, trainers, costs, start_s) for count in (1, 2, 4, 8)]
    keep(given.folder / "studies.json", rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
