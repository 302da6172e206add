"""What the fragments of code on a page take for granted, by page; and what of them is made shorter for a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import daskevo
from daskevo_workflows.problems import load_problem


def _digits(client: Any, folder: Path, root: str = "repository", **more: Any) -> dict[str, Any]:
    repository = daskevo.open(folder / root, "digits", client=client, objective="max val_accuracy", shards=4)
    return {"repository": repository, "client": client, "daskevo": daskevo, **more}


def readme(client: Any, folder: Path) -> dict[str, Any]:
    import keras

    inputs = keras.Input((8,))
    model = keras.Model(inputs, keras.layers.Dense(2, "softmax")(keras.layers.Dense(4)(inputs)))
    return _digits(client, folder, model=model, x=np.zeros((32, 8), "float32"), y=np.zeros(32, "int32"))


def spaces(client: Any, folder: Path) -> dict[str, Any]:
    from daskevo.space import Choice, Space

    return {"np": np, "space": Space("given", (Choice("width", (16, 32, 64)), Choice("kind", ("relu", "tanh", "elu"))))}


def snapshots(client: Any, folder: Path) -> dict[str, Any]:
    from daskevo.models import flatten
    from daskevo.repository import Snapshot

    model = load_problem("digits").build(_some_choices())
    weights = [np.asarray(weight) for weight in model.get_weights()]
    state = {"slot": np.ones(3), "seed": np.array([1, 2], "uint32"), "graph": flatten(model).graph, "weights": weights}
    found = _digits(client, folder) | state
    earlier = Snapshot(state["graph"], weights, {}, {})
    return found | {"earlier": found["repository"].put_snapshot(earlier, step=1, labels=["request:my study"])}


def _some_choices() -> dict[str, Any]:
    space = load_problem("digits").space()
    return dict(space.values(space.sample(np.random.default_rng(0))))


def stages(client: Any, folder: Path) -> dict[str, Any]:
    problem = load_problem("digits-lr")
    return {"problem": problem, "data": problem.data()}


def studies(client: Any, folder: Path) -> dict[str, Any]:
    """A small problem of hyper-parameters as `my_problem.py`."""
    text = (Path(__file__).parents[1] / "workflows" / "tuned.py").read_text()
    (folder / "my_problem.py").write_text(text)
    repository = daskevo.open(folder / "repository", "tuned", client=client, objective="max val_accuracy", shards=4)
    return {"repository": repository, "client": client}


def walltime(client: Any, folder: Path) -> dict[str, Any]:
    from daskevo.search import Grid
    from daskevo_workflows import nas, tune

    found = studies(client, folder)
    digits = daskevo.open(folder / "digits", "digits", client=client, objective="max val_accuracy", shards=4)
    study = tune.study(folder / "my_problem.py", repository=found["repository"], run=folder / "runs" / "study")
    # Over before anything can end: what is begun with is closed with the study.
    return {
        "repository": digits,
        "nas": nas,
        "problem": "digits",
        "study": study,
        "strategy": Grid(),
        "ends": time.time() + 1,
    }


def simulation(client: Any, folder: Path) -> dict[str, Any]:
    from tests.simulate.costs import costs

    costs(query_s=1e-3).save(folder / "costs.json")
    return {}


def transferred(client: Any, folder: Path) -> dict[str, Any]:
    from daskevo_workflows import nas

    problem = load_problem("digits")
    found = _digits(client, folder, nas=nas, problem=problem)
    return found | {"result": nas.search(problem, "random", repository=found["repository"], evaluations=1)}


def results(client: Any, folder: Path) -> dict[str, Any]:
    """Two runs with a record each, and no repository: seed 0 of digits with transfer and without."""
    from daskevo.runs import RunRecord, Unit
    from tests.workflows.reports.test_reading import identity, written

    mine = written(folder / "runs" / "digits-seed0", seed=0)
    written(folder / "runs" / "digits-seed0-no-transfer", seed=0, policy={"transfer": False})
    record = RunRecord(mine, identity(seed=0))
    record.planned({}, [Unit("evaluate-1", "evaluate", (1,))])
    record.unit_placed("evaluate-1", "trainer-0")
    record.close()
    return {}


def tuner(client: Any, folder: Path) -> dict[str, Any]:
    repository = daskevo.open(
        folder / "repository", "digits-tuned", client=client, objective="max val_accuracy", shards=4
    )
    (x, y), (x_val, y_val) = load_problem("digits").data().train, load_problem("digits").data().validation
    return {"repository": repository, "x_train": x, "y_train": y, "x_val": x_val, "y_val": y_val}


GIVEN: Mapping[str, Callable[[Any, Path], dict[str, Any]]] = {
    "README.md": readme,
    "docs/spaces.md": spaces,
    "docs/snapshots.md": snapshots,
    "docs/results.md": results,
    "docs/stage-training.md": stages,
    "docs/strategies.md": lambda client, folder: _digits(client, folder, problem="digits"),
    "docs/tuning.md": studies,
    "docs/walltime.md": walltime,
    "docs/simulation.md": simulation,
    "docs/own-strategy.md": _digits,
    "docs/resume.md": _digits,
    "docs/sharing.md": lambda client, folder: {"client": client},
    "docs/when-transfer-helps.md": transferred,
    "docs/keras-tuner.md": tuner,
}

SHORTER: Mapping[str, Mapping[str, str]] = {
    "README.md": {"evaluations=30": "evaluations=2"},
    "docs/keras-tuner.md": {"max_trials=4": "max_trials=1", "evaluations=4": "evaluations=1"},
    "docs/models.md": {"evaluations=4": "evaluations=2", "evaluations=2": "evaluations=1"},
    "docs/own-strategy.md": {"evaluations=3,": "evaluations=1,"},
    "docs/problems.md": {"--evaluations 4": "--evaluations 1"},
    "docs/resume.md": {
        "--evaluations 6": "--evaluations 1",
        "--evaluations 8": "--evaluations 2",
        "evaluations=6": "evaluations=1",
        "evaluations=8": "evaluations=2",
        "== 8": "== 2",
    },
    "docs/sharing.md": {"--evaluations 4": "--evaluations 1", "evaluations=3": "evaluations=1"},
    "docs/simulation.md": {"trainers=256, evaluations=1000": "trainers=4, evaluations=12"},
    "docs/stage-training.md": {"later.advance(200": "later.advance(70"},
    "docs/strategies.md": {
        "AsynchronousHalving(1, 16, 4, candidates=48)": "AsynchronousHalving(1, 2, 2, candidates=2)",
        "AsynchronousHalving(1, 9), repository=repository, evaluations=200": (
            "AsynchronousHalving(1, 2, 2, candidates=2), repository=repository, evaluations=2"
        ),
        "step=32": "step=3",
    },
    "docs/tuning.md": {
        "(1, 16, 4), evaluations=100": "(1, 2, 2), evaluations=2",
        "step=60": "step=3",
        "step=10": "step=2",
        '"batch_size": Constant(128), "dropout": 0.3': '"batch_size": Constant(16)',
    },
    "docs/tutorial.md": {
        "--evaluations 12": "--evaluations 3",
        "--evaluations 16 --run": "--evaluations 4 --run",
        "--evaluations 16 --pop": "--evaluations 1 --pop",
        "best(2), ": "best(1), ",
        "epochs=10": "epochs=1",
    },
    "docs/when-transfer-helps.md": {
        "--evaluations 6": "--evaluations 1",
        "evaluations=4": "evaluations=2",
        "best(2)": "best(1)",
    },
}
"""Page -> what stands there, and what is run instead: other numbers, nothing else."""
