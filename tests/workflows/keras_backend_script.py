"""What a process does with the backend of Keras that ``KERAS_BACKEND`` names: arguments are those of its functions.

What was found is printed as a line of JSON.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np

import daskevo
from daskevo.errors import InvalidInput
from daskevo.models import flatten, freeze, leaving_no_trace, read_tensors, seeded, write_tensors
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.fitting import fast_fit, obstacle
from tests.workflows import keras_backend_problem as problem

FILE = problem.__file__


def digest(model: Any) -> str:
    """Return a digest of a model's weights."""
    return hashlib.sha256(b"".join(array.tobytes() for array in read_tensors(flatten(model)))).hexdigest()


def predicted(model: Any) -> list[list[float]]:
    """Return what a model predicts of the problem's validation data."""
    found: list[list[float]] = keras.ops.convert_to_numpy(model(problem.data().validation[0], training=False)).tolist()
    return found


def compiled(seed: int = 0) -> Any:
    with seeded(seed):
        model = problem.build({"first": 4, "second": 3})
    problem.compile(model)
    return model


def fitted(**options: Any) -> Any:
    """Return a model that was built and fitted with the same seed each time."""
    with seeded(5), leaving_no_trace():
        model = compiled()
        model.history = fast_fit(model, *problem.data().train, batch_size=32, epochs=5, verbose=0, **options)
    return model


def refused(dtype: str) -> str:
    """Return what is said to a layer whose weights the backend can't hold."""
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype=dtype)])
    try:
        write_tensors(flatten(model), {1: np.array([1 / 3, 0], dtype)})
        return read_tensors(flatten(model))[1].dtype.name
    except InvalidInput as error:
        return error.message


def here() -> dict[str, Any]:
    """Models in this process: weights in and out, seeds, frozen layers, validation and callbacks of `fast_fit`."""
    half = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")])
    bits = np.arange(6, dtype=np.uint16).reshape(3, 2) * 7919  # denormals, large and small numbers
    write_tensors(flatten(half), {0: bits.view(ml_dtypes.bfloat16)})
    x, y = problem.data().train
    watching = keras.callbacks.EarlyStopping("val_loss", patience=0, min_delta=1e9)
    once, again = (fitted(validation_data=(x, y), callbacks=[copy.copy(watching)]) for _ in range(2))
    frozen = compiled(2)
    freeze(flatten(frozen), [1, 2])
    problem.compile(frozen)
    before = read_tensors(flatten(frozen))
    fast_fit(frozen, x, y, batch_size=32, verbose=0)
    after = read_tensors(flatten(frozen))
    return {
        "backend": keras.config.backend(),
        "obstacle": obstacle(once),
        "bfloat16": read_tensors(flatten(half))[0].view(np.uint16).tolist() == bits.tolist(),
        "float64": refused("float64"),
        "ids": [vertex.hex() for vertex in flatten(once).graph.ids],
        "equal_seeds": digest(once) == digest(again),
        "history": sorted(once.history.history),
        "epochs": len(once.history.epoch),
        "kept": [one.tobytes() == other.tobytes() for one, other in zip(before, after, strict=True)],
        "has_tensorflow": "tensorflow" in sys.modules,
    }


def read(root: str, name: str) -> dict[str, Any]:
    """Load a stored model without a cluster."""
    model = daskevo.open(root, "any").load(name)
    return {"digest": digest(model), "predicted": predicted(model)}


def search(folder: str) -> dict[str, Any]:
    """A search, refined and exported, and a model that inherits."""
    run, root = Path(folder) / "run", Path(folder) / "root"
    with (
        daskevo.local_cluster(trainers=2, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        repository = daskevo.open(root, "any", client=client, objective="max val_accuracy", shards=8)
        result = nas.search(
            FILE, AgedEvolution(4, 2), repository=repository, evaluations=4, run=run, seed=3, freeze="prefix"
        )
        best = result.best(1)[0]
        refined = nas.refine([best], FILE, epochs=1)[0].report
        model = repository.load(best.model_id)
        alike = keras.models.clone_model(model)
        with repository.inherit(alike, freeze="prefix", ancestor=best.model_id) as child:
            inherited = digest(child.model) == digest(model)
            problem.compile(child.model)
            child.put(metrics={"val_accuracy": 0.5}, step=1)
        return {
            "backends": sorted({*client.run(lambda: os.environ["KERAS_BACKEND"]).values()}),
            "summary": result.summary(),
            "refined": [refined.status, None if refined.failure is None else refined.failure.message],
            "best": best.model_id,
            "digest": digest(model),
            "predicted": predicted(model),
            "inherited": inherited,
            "clean": repository.verify().clean,
            "exported": [
                best.export(Path(folder) / f"best{end}").path.name for end in (".keras", ".weights.h5", ".safetensors")
            ],
            "card": best.export(Path(folder) / "card.keras").facts["run"]["versions"],
        }


def twice(folder: str) -> dict[str, Any]:
    """The same search twice on one trainer, each with a repository of its own."""
    found = []
    with (
        daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster,
        cluster.get_client() as client,
    ):
        for number in range(2):
            root = Path(folder) / f"root{number}"
            repository = daskevo.open(root, "any", client=client, objective="max val_accuracy", shards=8)
            result = nas.search(
                FILE,
                AgedEvolution(2, 2),
                repository=repository,
                evaluations=4,
                run=Path(folder) / f"run{number}",
                seed=3,
                keep_best=4,
            )
            found.append([digest(repository.load(one.model_id)) for one in result.best(4)])
    return {"equal": found[0] == found[1], "models": len(found[0])}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])) + "\n")
