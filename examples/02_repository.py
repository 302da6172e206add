"""The repository without a search: two models by hand, the second inherits what it shares with the first.

python examples/02_repository.py [ROOT]
"""

import sys

import numpy as np

import daskevo


def make_model(classes: int):
    import keras  # not at the top: worker processes import this file, and a provider has no use for TensorFlow

    inputs = keras.Input((16,))
    hidden = keras.layers.Dense(64, activation="relu")(inputs)
    hidden = keras.layers.Dense(32, activation="relu")(hidden)
    return keras.Model(inputs, keras.layers.Dense(classes, activation="softmax")(hidden))


def main(root: str = "runs/by-hand") -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(256, 16)).astype("float32")
    with daskevo.local_cluster(trainers=1) as cluster, cluster.get_client() as client:
        repository = daskevo.open(root, scope="demo", client=client, objective="max accuracy")
        for classes in (3, 5):
            model = make_model(classes)
            with repository.inherit(model) as child:  # finds the best ancestor, loads and freezes the prefix
                print(f"{classes} classes: ancestor {child.ancestor}, {child.frozen_share:.0%} of its vertices frozen")
                model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
                history = model.fit(x, rng.integers(0, classes, 256), verbose=0).history
                accuracy = history["accuracy"][-1]
                model_id = child.put(metrics={"accuracy": accuracy}, step=8, labels=["user:my paper"])
        for share in repository.contributors(model_id):
            print(f"{share.nbytes} bytes of it belong to {share.owner}")
        print("loaded again:", repository.load(model_id).count_params(), "parameters")
        for stored in repository.models():
            repository.release(stored.model_id, "user:my paper")  # the last label goes: the model is retired
        print("left after both were released:", repository.stats()["payload_bytes"], "bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
