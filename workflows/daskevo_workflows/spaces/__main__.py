"""Published spaces under random draws, strategies on three small ones: ``python -m daskevo_workflows.spaces``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.graph.depth import depth
from daskevo.search import Random, Strategy
from daskevo_plugins.formatting import say_count
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.execution.strategy_names import IN_ONE_PIECE
from daskevo_workflows.measurements.machine import machine_line
from daskevo_workflows.measurements.tables import ABSENT, FigureTable
from daskevo_workflows.nas import STRATEGIES
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.spaces.published import PUBLISHED, SMALL, look

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **{word: {"population": 4, "sample": 2} for word in ("evolution", "non-aged-evolution")},
    "multi-objective": {"population": 4},
    "grid": {"order": "shuffled"},
    **{word: {"startup": 3} for word in ("tpe", "gp")},
}
"""So that few evaluations are more than the random draws that strategies begin with, or a corner of a grid."""


def made(word: str) -> Strategy:
    """Return a strategy with these settings."""
    return STRATEGIES[word](**SETTINGS.get(word, {}))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m daskevo_workflows.spaces", description=__doc__)
    parser.add_argument("--evaluations", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    import_keras()
    sys.stdout.write(f"{machine_line(('keras', 'optuna'))}\n\n")
    for table in (of_spaces(options.evaluations, options.seed), of_strategies(options.evaluations, options.seed)):
        sys.stdout.write(f"{table}\n\n")


def of_spaces(evaluations: int, seed: int) -> FigureTable:
    """Draw from every published space at random."""
    rows = []
    for word, make in PUBLISHED.items():
        problem = make()
        size = space_of(problem).size
        begun = time.perf_counter()
        looked = look(problem, Random(), evaluations, seed, objectives=["min parameters"])
        spent = (time.perf_counter() - begun) / len(looked.graphs)
        graphs = list(looked.graphs.values())
        figures = (
            *(_range(len(graph.ids) for graph in graphs), _range(map(depth, graphs))),
            _range(graph.parameters for graph in graphs),
        )
        rows.append([word, str(size), _counted(looked), *figures, f"{1e3 * spent:.0f}"])
    head = ["space", "candidates", "architectures of those asked for", "vertices", "depth", "parameters", "ms each"]
    return FigureTable(f"Published spaces, {say_count(evaluations, 'evaluation')} of random search", head, rows)


def of_strategies(evaluations: int, seed: int) -> FigureTable:
    """Run every strategy on the three small spaces."""
    problems = {word: make() for word, make in SMALL.items()}
    rows, notes = [], []
    for word in IN_ONE_PIECE:
        objectives = ["min parameters", *(["max depth"] if word == "multi-objective" else [])]
        try:
            cells = []
            for problem in problems.values():
                looked = look(problem, made(word), evaluations, seed, objectives=objectives)
                best = min(report.quality or 0 for report in looked.finished)
                cells += [_counted(looked), f"{best:.0f}"]
        # A strategy may refuse a space, as the grid does one without bounds: the note says why.
        except InvalidInput as error:
            cells = [ABSENT] * 2 * len(problems)
            notes.append(f"{word}: {error.message}")
        rows.append([word, *cells])
    head = ["strategy", *(part for word in problems for part in (word, "fewest parameters"))]
    title = f"Strategies, {say_count(evaluations, 'evaluation')} each: architectures of those asked for"
    return FigureTable(title, head, rows, notes)


def _counted(looked: Any) -> str:
    return f"{len(looked.finished)} of {len(looked.run.requests)}"


def _range(figures: Any) -> str:
    low, *_, high = sorted([*figures] * 2)
    return f"{low:,} to {high:,}" if low < high else f"{low:,}"


if __name__ == "__main__":
    main()
