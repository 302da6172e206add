"""python -m daskevo_workflows.simulate measure | fit | search | queries: see docs/simulation.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from daskevo.errors import DaskevoError
from daskevo.search import AgedEvolution, Random
from daskevo_workflows.evaluation.transfer import FREEZE
from daskevo_workflows.simulate import fitting
from daskevo_workflows.simulate.costs import MeasuredCosts
from daskevo_workflows.simulate.graphs import layered, layered_space, of_problem
from daskevo_workflows.simulate.queries import queries
from daskevo_workflows.simulate.searching import search

STRATEGIES = {"evolution": AgedEvolution, "random": Random}


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the commands."""
    given = _parser().parse_args(words)
    try:
        given.run(given)
    except DaskevoError as error:
        sys.stderr.write(f"Error: {error.message}\n")
        raise SystemExit(1) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m daskevo_workflows.simulate", description="A search, simulated.")
    commands = parser.add_subparsers(required=True, metavar="measure | fit | search | queries")

    measure = commands.add_parser("measure", help="measure what a problem's search costs on this machine")
    measure.add_argument("problem", help="a name, or a file, as `daskevo nas` takes it")
    measure.add_argument("--folder", type=Path, required=True, help="a new folder for the run that is measured")
    measure.add_argument("--costs", type=Path, required=True, help="the file to write")
    measure.add_argument("--evaluations", type=int, default=24)
    measure.add_argument("--trainers", type=int, default=2)
    measure.set_defaults(run=_measure)

    fit = commands.add_parser("fit", help="take the evaluations' costs from a run, all others from a file")
    fit.add_argument("folder", metavar="RUN", type=Path)
    fit.add_argument("--costs", type=Path, required=True, help="a file of measured costs")
    fit.add_argument("--to", type=Path, required=True, help="the file to write")
    fit.set_defaults(run=_fit)

    search_ = commands.add_parser("search", help="simulate a search; figures as JSON")
    search_.add_argument("--costs", type=Path, required=True)
    search_.add_argument("--trainers", type=int, required=True)
    search_.add_argument("--evaluations", type=int, required=True)
    search_.add_argument("--problem", help="whose candidates to build; layers of a made-up space when left out")
    search_.add_argument("--strategy", choices=STRATEGIES, default="evolution")
    search_.add_argument("--seed", type=int, default=0)
    search_.add_argument("--providers", type=int, help="one for each four trainers when left out")
    search_.add_argument("--shards", type=int, default=64)
    search_.add_argument("--freeze", type=_freeze, default=FREEZE)
    search_.add_argument("--no-transfer", action="store_true")
    search_.add_argument("--keep", choices=("evo", "files"), default="evo")
    search_.add_argument(
        "--set", action="append", type=_changed, default=[], metavar="NAME=SECONDS", help="another cost, to try"
    )
    search_.set_defaults(run=_search)

    asked = commands.add_parser("queries", help="simulate many that ask for best matches")
    asked.add_argument("--costs", type=Path, required=True)
    asked.add_argument("--workers", type=int, nargs="+", default=[1, 8, 32, 128, 256, 512])
    asked.add_argument("--batch", type=int, default=1)
    asked.add_argument("--providers", type=int, help="one for each four workers when left out")
    asked.add_argument(
        "--set", action="append", type=_changed, default=[], metavar="NAME=SECONDS", help="another cost, to try"
    )
    asked.set_defaults(run=_queries)
    return parser


def _changed(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    try:
        return name, float(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word!r} is no NAME=SECONDS") from error


def _freeze(word: str) -> str | float:
    try:
        return float(word)
    except ValueError:
        return word


def _measure(given: argparse.Namespace) -> None:
    from daskevo_workflows.problems import load_problem
    from daskevo_workflows.simulate.measuring import measure

    costs = measure(
        load_problem(given.problem),
        given.folder,
        evaluations=given.evaluations,
        trainers=given.trainers,
        say=_say,
    )
    costs.save(given.costs)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _fit(given: argparse.Namespace) -> None:
    reports = fitting.reports_of(given.folder)
    fitting.fitted(MeasuredCosts.load(given.costs), reports, f"the run in {given.folder}").save(given.to)


def _search(given: argparse.Namespace) -> None:
    costs = MeasuredCosts.load(given.costs)
    if given.set:
        costs = costs.but("said on the command line", **dict(given.set))
    if given.problem is None:
        space = layered_space()
        graphs = layered(space)
    else:
        from daskevo_workflows.problems import load_problem
        from daskevo_workflows.problems.building import space_to_search

        problem = load_problem(given.problem)
        space, graphs = space_to_search(problem), of_problem(problem)  # type: ignore[assignment]
    outcome = search(
        STRATEGIES[given.strategy](),
        space,
        graphs,
        trainers=given.trainers,
        evaluations=given.evaluations,
        costs=costs,
        seed=given.seed,
        providers=given.providers,
        shards=given.shards,
        freeze=given.freeze,
        transfer=not given.no_transfer,
        keep=given.keep,
    )
    sys.stdout.write(json.dumps(outcome.to_json(), indent=1) + "\n")


def _queries(given: argparse.Namespace) -> None:
    costs = MeasuredCosts.load(given.costs)
    if given.set:
        costs = costs.but("said on the command line", **dict(given.set))
    found = [
        queries(workers, costs, batch=given.batch, providers=given.providers)._asdict() for workers in given.workers
    ]
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
