"""All strategies on the table, a hundred seeds each, beside random: ``python -m daskevo_workflows.tabular.compare``."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskevo.errors import InvalidInput
from daskevo.search import Strategy
from daskevo_workflows.execution.strategy_names import IN_ONE_PIECE
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.measurements.plots import check_plot, save_plot
from daskevo_workflows.measurements.tables import ABSENT, FigureTable
from daskevo_workflows.nas import STRATEGIES
from daskevo_workflows.tabular.running import run_on_table
from daskevo_workflows.tabular.table import Table, load_table

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "evolution": {"population": 16, "sample": 4},
    "non-aged-evolution": {"population": 16, "sample": 4},
    "multi-objective": {"population": 16},
    "grid": {"order": "shuffled"},
}
"""Where a strategy's own settings are meant for longer runs: a population of 50 is hardly full after 60 evaluations.
A grid in its natural order would see the same corner of the space for each seed."""
Array = NDArray[np.float64]


class Regrets(NamedTuple):
    """Regrets of a strategy after each evaluation: as the runs saw them, and by means over the table's seeds.

    Parameters
    ----------
    seen, true:
        # (n_seeds, evaluations)
    """

    seen: Array
    true: Array

    @property
    def last(self) -> Array:
        """Those seen at the end. # (n_seeds,)"""
        return self.seen[:, -1]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the comparison, and draw it."""
    parser = argparse.ArgumentParser(prog="python -m daskevo_workflows.tabular.compare", description=__doc__)
    parser.add_argument("--evaluations", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--strategies", nargs="+", choices=IN_ONE_PIECE, default=list(IN_ONE_PIECE), metavar="WORD")
    parser.add_argument("--table", type=Path, help="another table than the one that comes with daskevo")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where to draw it: .png or .svg")
    options = parser.parse_args(arguments)
    if options.plot is not None:
        check_plot(options.plot)
    begun, table = time.perf_counter(), load_table(options.table)
    found, absent = compare(
        table, options.strategies, options.evaluations, range(options.seeds), options.processes, _say
    )
    sys.stdout.write(f"{machine_line(('numpy', 'optuna'))}\n\n{shown(found, options.seeds)}\n")
    for word, reason in absent.items():
        sys.stdout.write(f"{word} is left out: {reason}\n")
    sys.stdout.write(f"{time.perf_counter() - begun:.0f} s\n")
    if options.plot is not None:
        save_plot(lambda figure: draw(figure, found), options.plot, height=4.6)


def compare(
    table: Table,
    strategies: Sequence[str],
    evaluations: int = 60,
    seeds: Sequence[int] = range(100),
    processes: int = 1,
    say: Callable[[str], None] = lambda words: None,
) -> tuple[dict[str, Regrets], dict[str, str]]:
    """Run strategies on a table.

    Parameters
    ----------
    strategies:
        Words of `strategy_names.IN_ONE_PIECE`; random runs whether it is among them or not.
    processes:
        Runs at a time, each in a process of its own; 1 = in this one.
    say:
        Told what is under way.

    Returns
    -------
    regrets, absent
        By word: regrets, and why a strategy can't run here.
    """
    found: dict[str, Regrets] = {}
    absent: dict[str, str] = {}
    with ExitStack() as stack:
        runs: Callable[..., Iterable[list[list[float]]]] = map
        # Spawned: a fork of a process with threads, such as those of BLAS, may hang. imap keeps the order of seeds.
        if processes > 1:
            runs = stack.enter_context(multiprocessing.get_context("spawn").Pool(processes)).imap
        # Random in any case: the others are compared with it.
        for word in dict.fromkeys(("random", *strategies)):
            try:
                made(word)
            except InvalidInput as error:
                absent[word] = error.message
                continue
            say(word)
            rows = np.array(list(runs(partial(_regrets, table, word, evaluations), seeds)))
            found[word] = Regrets(rows[:, 0], rows[:, 1])
    return found, absent


def _regrets(table: Table, word: str, evaluations: int, seed: int) -> list[list[float]]:
    run = run_on_table(made(word), table, evaluations, seed)
    # A space that ends early leaves its last regret standing.
    return [[*row, *[row[-1]] * (evaluations - len(row))] for row in (run.regrets, run.true_regrets)]


def made(word: str) -> Strategy:
    """Return a strategy with the settings of this comparison."""
    return STRATEGIES[word](**SETTINGS.get(word, {}))


def shown(found: Mapping[str, Regrets], seeds: int) -> str:
    """Return the regrets as a table: medians and quartiles, and how often each beat random with the same seed."""
    evaluations, last = found["random"].seen.shape[1], found["random"].last
    places = sorted({place for place in (10, 20, 40, evaluations) if place <= evaluations})
    rows = []
    for word, regrets in sorted(found.items(), key=lambda item: item[1].last.mean()):
        cells = []
        for place in places:
            low, middle, high = 100 * np.percentile(regrets.seen[:, place - 1], (25, 50, 75))
            cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})")
        # Seed by seed: both runs of a pair saw the same trainings.
        against = f"{(regrets.last < last).sum()} : {(regrets.last > last).sum()}"
        means = [f"{100 * figures[:, -1].mean():.2f}" for figures in regrets]
        rows.append([word, *cells, *means, ABSENT if word == "random" else against])
    title = f"Regret of the best found, in points of accuracy: median (quartiles) of {seeds} seeds"
    heads = [*(f"after {place}" for place in places), "mean", "mean of true regret", "better : worse than random"]
    return str(FigureTable(title, ["strategy", *heads], rows))


def draw(figure: Any, found: Mapping[str, Regrets]) -> None:
    """Draw the means over evaluations, and the share of seeds that found the best, into a figure of matplotlib."""
    from daskevo_workflows.reports.svg import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, logarithmic

    colours = cycle((INK, FAINT, BLUE, SKY, GREEN, PURPLE, VERMILION, ORANGE))
    inks = dict(zip(IN_ONE_PIECE, colours, strict=False))
    left, right = figure.subplots(1, 2)
    for word in sorted(found, key=lambda word: float(found[word].last.mean())):
        seen = found[word].seen
        style = {"color": inks[word], "linestyle": "--" if word in ("random", "grid") else "-", "linewidth": 1.6}
        place = range(1, seen.shape[1] + 1)
        left.plot(place, 100 * seen.mean(axis=0), label=word, **style)
        right.plot(place, 100 * (seen < 1e-9).mean(axis=0), **style)
    logarithmic(left.yaxis)
    left.set_ylabel("points of accuracy")
    left.set_title("Mean regret of the best found")
    right.set_ylabel("% of the seeds")
    right.set_title("Runs that found the best")
    for panel in (left, right):
        panel.set_xlabel("evaluations")
    figure.legend(loc="outside lower center", ncols=4)


def _say(words: str) -> None:
    sys.stderr.write(f"{words} ...\n")


if __name__ == "__main__":
    main()
