"""What stage trees save and which policy ends sooner, in simulated studies of the paper's kinds (002, chapter 6).

Run `python -m benchmarks.stage_trees` (about a minute). Steps are exact; seconds follow from the costs that are
given: nothing is measured but by the clock of the simulation, so that the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from functools import cache

from daskevo.tuning import (
    AllAtOnce,
    Configuration,
    Constant,
    Cosine,
    Exponential,
    GridSpace,
    Machine,
    MultiStep,
    Outcome,
    Policy,
    SimulatedStudy,
    StepSequence,
    Trajectory,
    Trial,
    count_steps,
    grid,
    simulate,
    warmup,
)
from tests.tuning.studies import AsynchronousHalving, Halving, loss, trials_of

EPOCHS = 120
RUNGS = (15, 60, 120)
KEEP = 4
POLICIES: tuple[Policy, ...] = ("critical path", "breadth first", "most children")


def spaces() -> dict[str, GridSpace]:
    """Grids like those of the paper's table 6.2: 48 trials that share little, 240 like its MobileNetV2, 48 that share
    much."""
    return {
        "48 trials, early milestones": grid(
            learning_rate=[
                *_milestones((60, 90), (80, 100), (40,)),
                warmup(0.01, 5, MultiStep(0.1, (90,), 0.1)),
                warmup(0.01, 5, Exponential(0.1, 0.95)),
                warmup(0.01, 5, Cosine(0.1, 0.0, 115)),
            ],
            batch_size=_doubled(40, 60, 80),
            momentum=[Constant(0.9), MultiStep(0.9, (60,), 1.05)],
            unit="epoch",
        ),
        "240 trials": grid(
            learning_rate=[
                *_milestones((60, 90), (80, 100), (70, 100), (60,)),
                warmup(0.01, 5, MultiStep(0.1, (90,), 0.1)),
            ],
            batch_size=_doubled(60, 75, 90),
            momentum=[Constant(0.9), *(MultiStep(0.9, (at,), 1.05) for at in (60, 90))],
            cutout=[Constant(16), MultiStep(16, (80,), 0.5)],
            optimizer=["sgd", "adam"],
            unit="epoch",
        ),
        "48 trials, late milestones": grid(
            learning_rate=_milestones((100, 110), (105, 112), (95,), (90,)),
            batch_size=_doubled(95, 100, 105),
            momentum=[Constant(0.9), *(MultiStep(0.9, (at,), 1.05) for at in (90, 100))],
            unit="epoch",
        ),
    }


def _milestones(*several: tuple[int, ...]) -> list[StepSequence]:
    return [MultiStep(0.1, milestones, 0.1) for milestones in several]


def _doubled(*at: int) -> list[StepSequence]:
    return [Constant(128), *(MultiStep(128, (step,), 2) for step in at)]


def machine(step_s: float, start_s: float, evaluate_s: float) -> Machine:
    """An epoch of half the batches takes 0.7 of the time."""

    @cache
    def cost(batch_size: StepSequence, step: int) -> float:
        return step_s * (0.4 + 0.6 * 128 / batch_size(step))

    return Machine(lambda each, step: cost(each.sequences["batch_size"], step), start_s, evaluate_s, loss)


def merge_rate(trials: Sequence[Trial]) -> float:
    return count_steps((Trajectory("m", trial.configuration), trial.until) for trial in trials).merge_rate


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(f'{cell:.2f}' if isinstance(cell, float) else str(cell) for cell in row)} |")


def savings(costs: Machine) -> None:
    rows = []
    for name, space in spaces().items():
        trials = trials_of(space, EPOCHS)
        configurations = [trial.configuration for trial in trials]
        kinds: dict[str, Callable[[], SimulatedStudy]] = {
            "grid": lambda trials=trials: AllAtOnce(tuple(trials)),  # type: ignore[misc]
            "halving": lambda each=configurations: Halving(each, RUNGS, KEEP),  # type: ignore[misc]
            "asynchronous halving": lambda each=configurations: AsynchronousHalving(each, RUNGS, KEEP),  # type: ignore[misc]
        }
        for kind, make in kinds.items():
            shared, alone = (simulate(make(), 40, costs, shared=way) for way in (True, False))
            rows.append([name, kind, merge_rate(trials), *_compared(shared, alone)])
    show(
        "Shared against each trial by itself, 40 trainers",
        ["space", "strategy", "merge rate", "epochs", "alone", "saved", "trainers' seconds saved", "ends sooner"],
        rows,
    )


def _compared(shared: Outcome, alone: Outcome) -> list[object]:
    return [
        shared.trained_steps,
        alone.trained_steps,
        alone.trained_steps / shared.trained_steps,
        alone.busy_s / shared.busy_s,
        alone.makespan_s / shared.makespan_s,
    ]


def policies(costs: Machine) -> None:
    trials = trials_of(spaces()["240 trials"], EPOCHS)
    configurations: list[Configuration] = [trial.configuration for trial in trials]
    kinds: dict[str, Callable[[], SimulatedStudy]] = {
        "grid": lambda: AllAtOnce(tuple(trials)),
        "asynchronous halving": lambda: AsynchronousHalving(configurations, RUNGS, KEEP),
    }
    rows = []
    for (kind, make), trainers, batched in itertools.product(kinds.items(), (8, 40), (False, True)):
        ends = [simulate(make(), trainers, costs, policy=policy, batched=batched).makespan_s for policy in POLICIES]
        rows.append([kind, trainers, "paths" if batched else "stages", *(round(end) for end in ends)])
    show("Seconds until the last answer, 240 trials", ["strategy", "trainers", "given as", *POLICIES], rows)


def studies(costs: Machine) -> None:
    trials = trials_of(spaces()["240 trials"], EPOCHS)
    rows = []
    for count in (1, 2, 4, 8):
        # Each study has the trials of some hyper-parameters: neighbours have half of theirs in common.
        parts = [[trials[(30 * study + at) % 240] for at in range(60)] for study in range(count)]
        shared = simulate({f"s{number}": AllAtOnce(tuple(part)) for number, part in enumerate(parts)}, 40, costs)
        alone = [simulate(AllAtOnce(tuple(part)), 40, costs, shared=False) for part in parts]
        whole = merge_rate([trial for part in parts for trial in part])
        busy_s = sum(each.busy_s for each in alone)
        rows.append([count, shared.total_steps, shared.trained_steps, whole, busy_s / shared.busy_s])
    show(
        "Studies of 60 trials at once",
        ["studies", "epochs alone", "epochs", "merge rate of all", "trainers' seconds saved"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-s", type=float, default=10.0, help="seconds of an epoch at batch size 128")
    parser.add_argument("--start-s", type=float, default=5.0, help="seconds to begin with a model that is loaded")
    parser.add_argument("--evaluate-s", type=float, default=1.0, help="seconds of an evaluation")
    given = parser.parse_args()
    costs = machine(given.step_s, given.start_s, given.evaluate_s)
    savings(costs)
    policies(costs)
    studies(costs)


if __name__ == "__main__":
    main()
