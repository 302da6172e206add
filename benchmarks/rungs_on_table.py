"""Strategies that continue trainings, on the tabular benchmark, at equal epochs.

Run `python -m benchmarks.rungs_on_table` (half a minute). Nothing is trained: later epochs are read
where earlier ones were, as an executor with snapshots would train them. Regret is that of the best candidate trained to
its end, as the run saw it, in points of accuracy: mean (median) over the seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy as np

from daskevo.search import (
    AgedEvolution,
    AsynchronousHalving,
    Hyperband,
    MedianStopping,
    Random,
    Strategy,
    SuccessiveHalving,
)
from daskevo_workflows.tabular import Table, TableRun, load_table, run_on_table

EPOCHS = (100, 200, 300)


def strategies(table: Table) -> Mapping[str, Callable[[], Strategy]]:
    """Rungs after one epoch and after all five; halving begins with 50 candidates."""
    epoch, most = table.steps_per_epoch, table.epochs * table.steps_per_epoch
    return {
        "random, whole trainings": Random,
        "evolution, whole trainings": lambda: AgedEvolution(population=16, sample=4),
        "successive halving": lambda: SuccessiveHalving(epoch, most, table.epochs, candidates=50),
        "asynchronous halving": lambda: AsynchronousHalving(epoch, most, table.epochs),
        "hyperband": lambda: Hyperband(epoch, most, table.epochs),
        "median stopping": lambda: MedianStopping(epoch, most),
    }


def regrets(run: TableRun, budgets: tuple[int, ...]) -> list[float]:
    """Return the regret within so many epochs each, steps that are continued counted once; 1 where none is complete."""
    table, whole = run.table, run.table.epochs * run.table.steps_per_epoch
    seen = run.seed % len(table.seeds)
    best = max(each.qualities[seen][-1] for each in table.architectures)
    steps: dict[str, int] = {}
    used, found = 0, 0.0
    after: list[tuple[int, float]] = []
    for request, report in zip(run.requests, run.reports, strict=True):
        until = request.until_step or whole
        start = 0 if request.continues is None else steps[request.continues]
        if report.status != "finished":
            continue
        steps[request.model_id] = until
        used += until - start
        if until == whole and report.quality is not None:
            found = max(found, report.quality)
        after.append((used, found))
    return [
        best - max((figure for epochs, figure in after if epochs <= budget * table.steps_per_epoch), default=0.0)
        for budget in budgets
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    seeds = range(parser.parse_args().seeds)
    table = load_table()
    print(f"| strategy | {' | '.join(f'{budget} epochs' for budget in EPOCHS)} |\n|---|{'---:|' * len(EPOCHS)}")
    for word, make in strategies(table).items():
        # More than the budget needs: every evaluation has one epoch at least, whole ones have them all.
        evaluations = max(EPOCHS) // (table.epochs if "whole" in word else 1)
        rows = 100 * np.array([regrets(run_on_table(make(), table, evaluations, seed), EPOCHS) for seed in seeds])
        cells = [f"{row.mean():.2f} ({np.median(row):.2f})" for row in rows.T]
        print(f"| {word} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
