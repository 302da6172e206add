"""Base models and mutators as spaces of Keras models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.errors import CandidateRejected, InvalidInput, InvalidMutation
from daskevo.models import Mutated, flatten, graph_of, model_of, output_shapes, shape_only
from daskevo.space import (
    Chain,
    InputMutator,
    InsertingMutator,
    Mutator,
    OperatorMutator,
    Size,
    layer,
    named,
    of_kind,
)


def figure_4() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="image"),
            layers.Conv2D(4, 3, name="conv"),
            layers.ReLU(name="relu"),
            layers.MaxPooling2D(name="maxpool"),
            layers.Dense(8, name="dense"),
            layers.Flatten(name="flatten"),
            layers.Dense(10, activation="softmax", name="out"),
        ]
    )


class Inception(Mutator):
    """Figure 6 of paper 003."""

    targets = Chain(of_kind("ReLU"), of_kind("MaxPooling2D"), of_kind("Dense"))

    def __init__(self, paths: tuple[int, ...], operators: dict[str, Any]) -> None:
        super().__init__("inception")
        self.paths, self.operators = paths, operators

    def mutate(self, graph: Any, match: Any, choose: Any) -> None:
        before, middle, after = match.nodes
        graph.delete(middle, bridge=False)
        for number in range(choose("paths", self.paths)):
            operator = self.operators[choose(f"operator {number}", list(self.operators))]
            way = graph.create(f"way_{number}", operator, [before])
            graph.connect(way, after)


OPERATORS = {
    "conv": layer("Conv2D", filters=4, kernel_size=3),
    "dconv": layer("DepthwiseConv2D", kernel_size=3, padding="same"),
    "pool": layer("MaxPooling2D"),
}


def inception() -> Mutated:
    return Mutated("inception", figure_4, [Inception((2, 3, 4, 5), OPERATORS)])


def test_an_inception_cell_is_fitted_and_trains() -> None:
    space = inception()
    assert space.size == Size("at least", 201)
    prefix = "inception/relu/"
    values = {"paths": 3, "operator 0": "conv", "operator 1": "dconv", "operator 2": "pool"}
    candidate = space.candidate({f"{prefix}{name}": value for name, value in values.items()})
    model = space.build(candidate)
    graph = space.graph(candidate)
    # Paths of 4x4, 6x6 and 3x3 positions come together at the smallest.
    assert {node.name for node in graph.nodes if node.name.startswith("dense.merge.")} == {
        "dense.merge.pool0",
        "dense.merge.pool1",
    }
    assert set(graph.untouched) == {"image", "conv", "relu", "flatten", "out"}
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True)
    loss = model.train_on_batch(np.ones((4, 8, 8, 1)), np.zeros(4))
    assert np.isfinite(loss)


CODE = """
import json, sys
import numpy as np
import keras
{before}
from daskevo.models import flatten, shape_only
from tests.models.test_mutated import inception
space = inception()
rng = np.random.default_rng(5)
with shape_only():
    made = [flatten(space.build(candidate)).graph.ids for candidate in (space.sample(rng) for _ in range(3))]
print(json.dumps([[bytes(each).hex() for each in ids] for ids in made] + [space.to_json()]))
"""


def ids_here() -> Any:
    lines: list[str] = []
    exec(CODE.format(before=""), {"print": lines.append})
    return json.loads(lines[0])


@pytest.mark.long
def test_same_candidate_same_vertex_ids_in_a_fresh_process() -> None:
    told = subprocess.run(
        [sys.executable, "-c", CODE.format(before="keras.layers.Dense(1); keras.layers.Conv2D(1, 1)")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert json.loads(told.stdout.splitlines()[-1]) == ids_here()


def test_misfits_are_rejected_while_drawn_and_keras_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = {"conv": layer("Conv2D", filters=4, kernel_size=1), "sequence": layer("LSTM", units=4)}
    space = Mutated("some misfit", figure_4, [InsertingMutator(named("conv"), operators, name="after")])
    with pytest.raises(CandidateRejected, match=r"LSTM 'conv\.inserted' can't take 6x6x4"):
        space.candidate({"after/conv/operator": "sequence"})
    asked: list[str] = []
    real = output_shapes._asked
    monkeypatch.setattr(output_shapes, "_asked", lambda node, *rest: asked.append(node.name) or real(node, *rest))
    rng = np.random.default_rng(0)
    assert {space.sample(rng) for _ in range(20)} == {space.candidate({"after/conv/operator": "conv"})}
    assert asked == []
    assert list(space.enumerate()) == [space.candidate({"after/conv/operator": "conv"})]

    with pytest.raises(CandidateRejected, match="LSTM"):
        Mutated("all misfit", figure_4, [InsertingMutator(named("conv"), [layer("LSTM", units=4)])])
    with pytest.raises(InvalidInput, match="can't be made"):
        Mutated("mistake", figure_4, [InsertingMutator(named("conv"), [layer("ReLU", max=3)])])


def test_a_new_output_is_refused_with_the_reason() -> None:
    widths = [layer("Dense", units=10, activation="softmax"), layer("Dense", units=11)]
    space = Mutated("output", figure_4, [OperatorMutator(named("out"), widths, name="out")])
    assert space.size == Size("exact", 1)
    with pytest.raises(CandidateRejected, match="the output 'out' is 11 of float32, and the base model's is 10"):
        space.candidate({"out/out/operator": "Dense(units=11)"})


def test_bases_as_models_functions_and_generated_graphs() -> None:
    wide = keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10, activation="softmax")])
    after = InsertingMutator(of_kind("Flatten", "Conv2D"), {"none": None, "dropout": layer("Dropout", rate=0.5)})
    space = Mutated("several", {"figure 4": figure_4, "wide": wide}, [after])
    assert space.size == Size("exact", 4 + 2)
    first = space.graph(next(space.enumerate()))
    again = Mutated("again", first, [InputMutator(named("dense"), of_kind("Conv2D", "ReLU", "MaxPooling2D"))])
    counts = set()
    for candidate in again.enumerate():
        counts.add(again.build(candidate).count_params())
    assert len(counts) > 1
    assert Mutated("several", {"figure 4": figure_4, "wide": wide}, [after]) == space
    assert Mutated("several", {"figure 4": figure_4, "wide": wide}, [after], vectors="flatten") != space


def test_settings_that_are_none() -> None:
    with pytest.raises(InvalidInput, match="merge"):
        Mutated("bad", figure_4, [Inception((2,), OPERATORS)], merge="Dense")
    with pytest.raises(InvalidInput, match="vectors"):
        Mutated("bad", figure_4, [Inception((2,), OPERATORS)], vectors="mean")  # type: ignore[arg-type]
    with pytest.raises(InvalidMutation, match="matches nothing"):
        Mutated("bad", figure_4, [OperatorMutator(of_kind("LSTM"), [layer("ReLU")])])


def test_the_prefix_before_a_mutation_stays_the_base_models() -> None:
    space = inception()
    rng = np.random.default_rng(1)
    with shape_only():
        base = flatten(model_of(graph_of(figure_4))).graph
        for _ in range(5):
            found = flatten(space.build(space.sample(rng))).graph
            assert set(base.ids[:3]) <= set(found.ids)
