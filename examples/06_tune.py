"""Hyper-parameters over time: trials that begin alike are trained together until they part, and the best goes on.

python examples/06_tune.py [RUN_FOLDER]
"""

import sys

import daskevo
from daskevo.search import SuccessiveHalving
from daskevo.tuning import Constant, Linear, MultiStep, grid
from daskevo_workflows import tune


def main(run: str = "runs/tuned") -> None:
    space = grid(
        learning_rate=[Constant(0.01), MultiStep(0.01, (2,), 0.3), MultiStep(0.01, (2, 4), 0.3), Linear(0.02, 0.0, 8)],
        batch_size=[Constant(32), MultiStep(32, (4,), 2)],
        unit="epoch",
    )
    with daskevo.local_cluster(trainers=1) as cluster, cluster.get_client() as client:
        repository = daskevo.open(f"{run}/repository", "digits", client=client, objective="max val_accuracy")
        with tune.study("digits-lr", space, repository=repository, run=run, steps=8) as study:
            ahead = study.forecast()
            print(f"a grid would train {ahead.total_steps} epochs, of which {ahead.unique_steps} differ")
            result = study.run(SuccessiveHalving(2, 8, 2, candidates=8, rounds=1))
            best, figures = result.best()[0], result.figures
            print(f"asked for {figures.total_steps} epochs, trained {figures.trained_steps}")
            print(f"the best has val_accuracy {best.quality:.3f} at epoch {best.step}: {best.configuration}")
            print(f"four epochs later: {study.evaluate(best, best.step + 4)['val_accuracy']:.3f}")


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
