"""A grid by Optuna's grid sampler and Keras' own `fit`, as one would do it without us: two processes, a file between.

Schedules are those of the grid: the learning rate by Keras' callback, the batch size by one `fit` for each of its
values, which goes on where the one before ended.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.tuning import problem as clothes
from benchmarks.tuning.arms import ROOT, done, since_start_s
from benchmarks.tuning.training import PROBLEM, PROBLEMS
from daskevo.deploy.worker_environment import trainer_environment
from daskevo.tuning import GridSpace, sequence_from_json
from daskevo_workflows.problems import load_problem

NAME = "grid"


def options_of(space: GridSpace) -> dict[str, list[int]]:
    """Return the numbers of each hyper-parameter's options."""
    return {choice.name: list(range(len(choice.options))) for choice in space.choices}


def open_study(folder: Path, space: GridSpace) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(folder / "optuna.log"))),
        sampler=optuna.samplers.GridSampler(options_of(space), seed=0),
        study_name=NAME,
        direction="minimize",
        load_if_exists=True,
    )


def work(folder: Path, space: GridSpace, epochs: int, file: Path) -> None:
    """Train trials until the grid has been."""
    from optuna.study import MaxTrialsCallback
    from optuna.trial import TrialState

    problem = load_problem(file)
    data = problem.data()
    sequences = {choice.name: list(map(sequence_from_json, choice.options)) for choice in space.choices}

    def objective(trial: Any) -> float:
        import keras

        keras.utils.set_random_seed(0)
        chosen = {
            name: sequences[name][trial.suggest_categorical(name, numbers)]
            for name, numbers in options_of(space).items()
        }
        rate, size = chosen["learning_rate"], chosen["batch_size"]
        begun = time.monotonic()
        model = problem.build({})
        problem.compile(model)
        schedule = keras.callbacks.LearningRateScheduler(lambda epoch: float(rate(epoch)))
        for batch_size, run in itertools.groupby(range(epochs), key=lambda epoch: int(size(epoch))):
            part = list(run)
            model.fit(
                *data.train,
                batch_size=batch_size,
                initial_epoch=part[0],
                epochs=part[-1] + 1,
                callbacks=[schedule],
                verbose=0,
            )
        trial.set_user_attr("fit_s", time.monotonic() - begun)
        return float(problem.score(model, data)["val_loss"])

    # Without the running ones, the last two trials would be trained by both processes.
    whole = MaxTrialsCallback(space.size.count, states=(TrialState.COMPLETE, TrialState.RUNNING))
    open_study(folder, space).optimize(objective, callbacks=[whole])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--grid", choices=clothes.grids(), required=True)
    parser.add_argument("--epochs", type=int, default=clothes.EPOCHS)
    parser.add_argument("--trainers", type=int, default=2)
    parser.add_argument("--work", action="store_true", help="be one of the processes")
    given = parser.parse_args()
    space = clothes.grids()[given.grid]
    if given.work:
        work(given.folder, space, given.epochs, PROBLEMS.get(given.grid, PROBLEM))
        return
    open_study(given.folder, space)
    environment = {**os.environ, **trainer_environment(max(1, (os.cpu_count() or 1) // given.trainers), None)}
    processes = [
        subprocess.Popen([sys.executable, "-m", __spec__.name, *sys.argv[1:], "--work"], cwd=ROOT, env=environment)
        for _ in range(given.trainers)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit("a process of Optuna's failed")
    wall_s = since_start_s()
    study = open_study(given.folder, space)
    done(
        given.folder,
        {
            "trials": len(study.trials),
            "different": len({tuple(sorted(trial.params.items())) for trial in study.trials}),
            "fit_s": sum(trial.user_attrs["fit_s"] for trial in study.trials),
            "best": study.best_value,
            "wall_s": wall_s,
        },
    )


if __name__ == "__main__":
    main()
