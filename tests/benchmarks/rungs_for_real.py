"""Halving and asynchronous halving for real: what sharing equal steps saves against each trial by itself.

Run `python -m tests.benchmarks.rungs_for_real FOLDER` on a quiet machine; started again, it goes on. The problem is
that of `rungs_problem.py`: 48 trials, rungs at 1, 4 and 16 epochs, all on one local cluster. By itself, a trial has a
constant of its own, which keeps it apart from all others, bit for bit the same training; its rungs go on from its own
snapshots. Halving asks the same in both; asynchronous halving asks by who comes first, so it is simulated too, with
the metrics of all trials at all rungs and the seconds that were measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import daskevo
from daskevo.search import AsynchronousHalving, Strategy, SuccessiveHalving
from daskevo.space import Candidate
from daskevo.tuning import (
    Configuration,
    GridSpace,
    Machine,
    Outcome,
    Trajectory,
    count_steps,
    sequence_from_json,
    simulate,
)
from daskevo.types import JSON
from daskevo_workflows import tune
from daskevo_workflows.bench.machine import machine_line
from daskevo_workflows.bench.tables import Table
from daskevo_workflows.problems import load_problem
from daskevo_workflows.studies.accounts import Figures
from tests.tuning.asking import Asking

PROBLEM = Path(__file__).with_name("rungs_problem.py")


class Alone(GridSpace):
    """The same candidates, each with steps of its own."""

    @classmethod
    def of(cls, space: GridSpace) -> Alone:
        options = {choice.name: list(map(sequence_from_json, choice.options)) for choice in space.choices}
        return cls(space.name, options, unit=space.unit)

    def configuration(self, candidate: Candidate) -> Configuration:
        shared = super().configuration(candidate)
        return Configuration(shared.sequences, {**shared.constants, "alone": list(candidate.values)}, shared.unit)

    def to_json(self) -> JSON:
        return {**super().to_json(), "alone": True}


class Measured(NamedTuple):
    """A study that has ended."""

    figures: Figures
    runtime_s: float
    answers: int
    best: float

    @property
    def busy_s(self) -> float:
        return self.figures.training_s + self.figures.start_s + self.figures.scoring_s


def measured(folder: Path, client: Any, space: GridSpace, strategy: Strategy) -> Measured:
    """Have a strategy lead a study that shares nothing with others, or read what came of it."""
    repository = daskevo.open(folder / "repository", "rungs", client=client, objective="min val_loss")
    with tune.study(PROBLEM, space, repository=repository, run=folder / "run") as study:
        result = study.run(strategy)
        return Measured(result.figures, result.runtime_s, len(result.reports), result.best()[0].quality)


def losses(folder: Path, client: Any, space: GridSpace, rungs: list[int]) -> dict[str, float]:
    """Return the loss of all trials at all rungs, by what is trained until there."""
    repository = daskevo.open(folder / "repository", "rungs", client=client, objective="min val_loss")
    found = {}
    with tune.study(PROBLEM, space, repository=repository, run=folder / "table") as study:
        futures = {
            (candidate, step): study.submit(candidate, step) for candidate in space.enumerate() for step in rungs
        }
        for (candidate, step), future in futures.items():
            found[_key(space.configuration(candidate), step)] = future.result()["val_loss"]
    return found


def _key(configuration: Configuration, step: int) -> str:
    return Trajectory("any", configuration).key(step)


def replayed(space: GridSpace, make: Callable[[], Strategy], costs: Machine, trainers: int) -> tuple[Outcome, Outcome]:
    """Simulate a strategy by measured costs and metrics: shared, and each trial by itself."""
    shared, alone = (
        simulate(Asking(make(), space, 64), trainers, costs, shared=is_shared) for is_shared in (True, False)
    )
    return shared, alone


def costs_of(alone: Measured, known: Mapping[str, float]) -> Machine:
    """Return means of a study in which each trial is by itself."""
    figures = alone.figures
    return Machine(
        step_s=lambda configuration, step: figures.training_s / figures.trained_steps,
        start_s=figures.start_s / figures.trials,
        evaluate_s=figures.scoring_s / alone.answers,
        metrics=lambda configuration, step: {"loss": known[_key(configuration, step)]},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of runs and repositories; what is there is not done again")
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--candidates", type=int, default=48, help="that begin")
    parser.add_argument("--most", type=int, default=16, help="epochs of the last rung")
    parser.add_argument("--eta", type=int, default=4)
    given = parser.parse_args()
    space = load_problem(PROBLEM).space()  # type: ignore[attr-defined]
    makers: dict[str, Callable[[], Strategy]] = {
        "successive halving": lambda: SuccessiveHalving(
            1, given.most, given.eta, candidates=given.candidates, rounds=1
        ),
        "asynchronous halving": lambda: AsynchronousHalving(1, given.most, given.eta, candidates=given.candidates),
    }
    rungs = [1]
    while rungs[-1] < given.most:
        rungs.append(rungs[-1] * given.eta)
    whole = count_steps([(Trajectory("any", space.configuration(each)), given.most) for each in space.enumerate()])
    rows, equal = [], []
    with (
        daskevo.local_cluster(trainers=given.trainers, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        for word, make in makers.items():
            folder = given.folder / word.replace(" ", "-")
            shared = measured(folder / "shared", client, space, make())
            alone = measured(folder / "alone", client, Alone.of(space), make())
            equal.append(f"{word} {shared.best:.6f} and {alone.best:.6f}")
            rows.append(_row(word, shared, alone))
        known = losses(folder / "shared", client, space, rungs)
    simulated, apart = replayed(space, makers["asynchronous halving"], costs_of(alone, known), given.trainers)
    rows.append(
        [
            "asynchronous halving, replayed",
            *(str(apart.trained_steps), str(simulated.trained_steps)),
            f"{apart.trained_steps / simulated.trained_steps:.2f}",
            *("–", "–", "–"),
            f"{apart.busy_s / simulated.busy_s:.2f}",
            f"{apart.makespan_s / simulated.makespan_s:.2f}",
        ]
    )
    head = [
        *("strategy", "epochs, each trial by itself", "epochs trained", "saving"),
        *("training s by itself", "training s", "saving in them", "saving in trainers' s", "saving in wall s"),
    ]
    notes = [
        f"{given.candidates} candidates, rungs at {rungs} epochs, {given.trainers} trainers; merge rate of all "
        f"{len(list(space.enumerate()))} trials at {given.most} epochs: {whole.merge_rate:.2f}.",
        f"Best loss, shared and by itself: {'; '.join(equal)}.",
        "Training seconds are without starts (building, loading, first steps) and scoring; trainers' seconds have all.",
        machine_line(["keras", "tensorflow", "distributed"]),
    ]
    print(Table("Rungs, shared and each trial by itself", head, rows, notes))


def _row(word: str, shared: Measured, alone: Measured) -> list[str]:
    training_s = shared.figures.training_s
    return [
        word,
        *(str(shared.figures.total_steps), str(shared.figures.trained_steps)),
        f"{shared.figures.total_steps / shared.figures.trained_steps:.2f}",
        *(f"{alone.figures.training_s:.1f}", f"{training_s:.1f}"),
        f"{alone.figures.training_s / training_s:.2f}",
        f"{alone.busy_s / shared.busy_s:.2f}",
        f"{alone.runtime_s / shared.runtime_s:.2f}",
    ]


if __name__ == "__main__":
    main()
