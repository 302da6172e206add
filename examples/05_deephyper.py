"""A DeepHyper search as its users know it, on a Dask cluster, whose models inherit from each other.

python examples/05_deephyper.py [LOG_FOLDER]
"""

import sys

from deephyper.hpo import HpProblem

import daskevo
from daskevo_plugins.deephyper import CBO, DaskEvaluator, follow, transfer_run_function

problem = HpProblem()
problem.add([32, 64], "first")
problem.add(["relu", "tanh"], "activation")
problem.add([8, 16, 24, 32], "second")


def build(parameters):
    import keras  # not at the top: worker processes import this file, and a provider has no use for TensorFlow

    inputs = keras.Input((64,))
    tensor = keras.layers.Dense(parameters["first"], parameters["activation"])(inputs)
    tensor = keras.layers.Dense(parameters["second"], "relu")(tensor)
    return keras.Model(inputs, keras.layers.Dense(10, "softmax")(tensor))


def train(model, job):
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])  # the inherited prefix is frozen
    fitted = model.fit(
        x / 16, y, validation_split=0.2, epochs=1, verbose=0, callbacks=[follow(job, "max val_accuracy")]
    )
    return {name: values[-1] for name, values in fitted.history.items()}


def main(log_dir: str = "runs/deephyper") -> None:
    with daskevo.local_cluster(trainers=2) as cluster, cluster.get_client() as client:
        repository = daskevo.open(f"{log_dir}/repository", "digits", client=client, objective="max val_accuracy")
        run = transfer_run_function(build, train, repository=repository)
        search = CBO(problem, random_state=0, log_dir=log_dir, keep=3, on_leave=run.release)
        results = search.search(DaskEvaluator(run, client=client), max_evals=8, max_evals_strict=True)
        print(results[["p:first", "p:activation", "p:second", "objective", "m:ancestor", "m:frozen_share"]])
        print(len(repository.models()), "models are kept; the best is trained, and here:")
        repository.load(search.living_models[0]).summary()


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
