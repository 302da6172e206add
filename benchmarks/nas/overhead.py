"""What frameworks take per evaluation beyond the user's own functions: one small space, training of known length.

Each rival runs in its own documented way with a record on disk: Optuna with SQLite, DeepHyper's CBO on threads,
KerasTuner's random search. All build the same Keras models in the same process kind; only daskevo also stores them, and
inherits. Overhead is the workers' time between the first begin and the last end that none of `build`, `compile`, `fit`
and `score` accounts for, per evaluation. Dask's futures alone, on the same trainers, are the floor: what processes and
messages cost whoever shares these cores.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared.sleeping_problem import Sleeping
from daskevo_workflows.measurements.tables import FigureTable, figure

USER_PHASES = ("build", "compile", "first_step", "training", "scoring")


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds per evaluation; None if the framework is not installed or has no such workers."""

    framework: str
    workers: int
    seconds: float | None


class Spans:
    """When evaluations ran, by the wall clock, and how much of that was the user's own functions."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.ended: list[float] = []
        self.own_s: list[float] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        begun = time.time()
        yield
        self.add(begun, time.time())

    def add(self, begun: float, ended: float, own_s: float | None = None) -> None:
        self.begun.append(begun)
        self.ended.append(ended)
        self.own_s.append(ended - begun if own_s is None else own_s)

    def overhead(self, workers: int) -> float:
        """Return the seconds per evaluation, between so many workers' first begin and last end, that are no user's."""
        wall = max(self.ended) - min(self.begun)
        return (workers * wall - sum(self.own_s)) / (len(self.begun) - workers)


def measure_ours(client: Any, folder: Path, problem: Sleeping, evaluations: int, workers: int) -> Overhead:
    """Search on a cluster of so many trainers, after a short search that prepares them."""
    import daskevo
    from daskevo_workflows.nas import search

    repository = daskevo.open(folder / "repository", "bench", client=client, objective=problem.objective)
    search(problem, repository=repository, evaluations=2 * workers, run=folder / "before", seed=1)
    result = search(problem, repository=repository, evaluations=evaluations, run=folder / "run", seed=2)
    spans = Spans()
    for report in result.reports:
        if report.status == "finished" and report.started is not None and report.ended is not None:
            own = sum(report.seconds.get(phase, 0.0) for phase in USER_PHASES)
            spans.add(report.started, report.ended, own)
    return Overhead("daskevo", workers, spans.overhead(workers))


def measure_futures(client: Any, problem: Sleeping, evaluations: int, workers: int) -> Overhead:
    """Evaluate drawn candidates by Dask's futures and nothing else, each submitted when another has ended."""
    from distributed import as_completed

    space, rng = problem.space(), np.random.default_rng(0)

    def submit() -> Any:
        values = space.values(space.sample(rng))
        return client.submit(_evaluated_alone, problem, values, resources={"evaluation": 1}, pure=False)

    spans = Spans()
    under_way = as_completed([submit() for _ in range(workers)])
    for number, future in enumerate(under_way, workers):
        if number < evaluations:
            under_way.add(submit())
        spans.add(*future.result())
    return Overhead("Dask futures alone", workers, spans.overhead(workers))


def _evaluated_alone(problem: Sleeping, values: Mapping[str, Any]) -> tuple[float, float, float]:
    """Evaluate in this task; return when it began and ended, and the user's own seconds in between."""
    begun = time.time()
    _evaluated(problem, values)
    ended = time.time()
    return begun, ended, ended - begun


def measure_rivals(folder: Path, problem: Sleeping, evaluations: int, workers: int) -> list[Overhead]:
    """Measure every rival that is installed."""
    found = []
    for name, package, rival in (
        ("Optuna", "optuna", _optuna),
        ("DeepHyper", "deephyper", _deephyper),
        ("KerasTuner", "keras_tuner", _keras_tuner),
    ):
        seconds = None
        if importlib.util.find_spec(package) is not None and not (rival is _keras_tuner and workers > 1):
            spans = Spans()
            place = folder / package
            place.mkdir(parents=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # theirs
                rival(place, problem, evaluations, workers, spans)
            seconds = spans.overhead(workers)
        found.append(Overhead(name, workers, seconds))
    return found


def _evaluated(problem: Sleeping, values: Mapping[str, Any]) -> float:
    model = problem.build(values)
    problem.fit(model, None, None)
    return problem.score(model, problem.data())["val_score"]


def _options(problem: Sleeping) -> dict[str, list[Any]]:
    return {choice.name: list(choice.options) for choice in problem.space().choices}


def _optuna(folder: Path, problem: Sleeping, evaluations: int, workers: int, spans: Spans) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: Any) -> float:
        values = {name: trial.suggest_categorical(name, options) for name, options in _options(problem).items()}
        with spans.one():
            return _evaluated(problem, values)

    study = optuna.create_study(storage=f"sqlite:///{folder / 'study.db'}", direction="maximize")
    study.optimize(objective, n_trials=evaluations, n_jobs=workers)


def _deephyper(folder: Path, problem: Sleeping, evaluations: int, workers: int, spans: Spans) -> None:
    from deephyper.evaluator import Evaluator
    from deephyper.hpo import CBO, HpProblem

    space = HpProblem()
    for name, options in _options(problem).items():
        space.add_hyperparameter(options, name)

    def objective(job: Any) -> float:
        with spans.one():
            return _evaluated(problem, dict(job.parameters))

    evaluator = Evaluator.create(objective, method="thread", method_kwargs={"num_workers": workers})
    CBO(space, log_dir=str(folder), verbose=0).search(evaluator, max_evals=evaluations, max_evals_strict=True)


def _keras_tuner(folder: Path, problem: Sleeping, evaluations: int, workers: int, spans: Spans) -> None:
    import keras_tuner

    class Tuner(keras_tuner.RandomSearch):  # type: ignore[misc]
        def run_trial(self, trial: Any, *arguments: Any, **options: Any) -> float:
            hp = trial.hyperparameters
            values = {name: hp.Choice(name, choices) for name, choices in _options(problem).items()}
            with spans.one():
                return _evaluated(problem, values)

    objective = keras_tuner.Objective("score", "max")
    Tuner(objective=objective, max_trials=evaluations, directory=str(folder), project_name="bench").search(verbose=0)


def overhead_table(found: Sequence[Overhead], sleep_s: float, evaluations: int) -> FigureTable:
    workers = sorted({one.workers for one in found})
    names = dict.fromkeys(one.framework for one in found)
    cells = {(one.framework, one.workers): one.seconds for one in found}
    rows = [(name, *(figure(cells.get((name, count))) for count in workers)) for name in names]
    absent = [
        name
        for name, package in (("Optuna", "optuna"), ("DeepHyper", "deephyper"), ("KerasTuner", "keras_tuner"))
        if importlib.util.find_spec(package) is None
    ]
    notes = [
        f"{evaluations} evaluations, each a model of three layers and {sleep_s:g} s of sleep; all but build, compile, "
        "fit and score. Dask futures alone: the same trainers, nothing asked, stored or recorded. daskevo trains in "
        "processes of their own and stores every model; the rivals evaluate in threads of one process and store "
        "scores. KerasTuner, by its run_trial, keeps no checkpoints here; it has no parallel search in one process.",
    ]
    if absent:
        notes.append(f"Not installed: {', '.join(absent)}.")
    return FigureTable(
        "Framework overhead per evaluation (seconds)", ("", *(f"{n} at a time" for n in workers)), rows, notes
    )


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the loggers of rivals from the terminal while they are measured."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
