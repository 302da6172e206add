"""Keras models as graphs for mutators, and back: the zoo, names, sharing, what is refused."""

from __future__ import annotations

import keras
import pytest
from keras import layers

from daskevo.errors import CandidateRejected, CannotFlatten, CannotRebuild, InvalidInput, InvalidMutation
from daskevo.models import flatten, graph_of, model_of, shape_only
from daskevo.space import ModelGraph, layer
from tests.cases import with_long
from tests.models.zoo import ZOO


@pytest.mark.filterwarnings("ignore:.*was passed an input with a mask")
@pytest.mark.parametrize("name", with_long(sorted(ZOO), "quantised"))
def test_there_and_back_is_the_same_model(name: str) -> None:
    model = ZOO[name]()
    wanted, found = flatten(model).graph, flatten(model_of(graph_of(model))).graph
    assert found.ids == wanted.ids
    assert found.structure["inputs"] == wanted.structure["inputs"]
    assert found.outputs == wanted.outputs


def two_layers() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(3), layers.Dense(2, name="mine")])


def test_numbered_names_do_not_depend_on_the_process() -> None:
    layers.Dense(1)
    expected = ("input_layer", "dense", "dense_1", "mine")
    assert graph_of(two_layers).order() == expected
    assert graph_of(two_layers()).order() == expected
    assert graph_of(two_layers()).digest() == graph_of(two_layers()).digest()


def test_a_layer_called_twice_is_two_nodes_that_share_it() -> None:
    inputs = keras.Input((4,), name="in")
    shared = layers.Dense(4, name="shared")
    graph = graph_of(keras.Model(inputs, shared(shared(inputs))))
    assert graph.order() == ("in", "shared", "shared.call2")
    assert graph["shared.call2"].shares == "shared"
    assert len(model_of(graph).weights) == 2
    graph.replace("shared", layer("Dense", units=4))
    assert len(model_of(graph).weights) == 4


def test_the_same_tensor_twice_is_two_inputs() -> None:
    inputs = keras.Input((4, 4), name="in")
    other = layers.Dense(4, name="other")(inputs)
    attended = layers.MultiHeadAttention(1, 2, name="attention")(other, other)
    graph = graph_of(keras.Model(inputs, layers.Add(name="add")([attended, attended])))
    graph.change_input("attention", 1, "in")
    graph.change_input("add", 1, "in")
    assert graph["add"].call == "list"
    model = model_of(graph)
    flat = flatten(model).graph
    attention = next(vertex for vertex in flat.vertices if flat.layers[vertex.layer].name == "attention")
    assert [edge.argument for edge in attention.edges] == ["query", "value"]
    assert len({edge.source for edge in attention.edges}) == 2


def test_what_is_no_base_is_refused() -> None:
    class Own(keras.Model):
        def call(self, inputs: object) -> object:
            return inputs

    with pytest.raises(CannotFlatten, match="functional API"):
        graph_of(Own())
    with pytest.raises(CannotFlatten, match="can't be rebuilt"):
        graph_of(keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x)]))
    for wrong in (3, lambda: 3):
        with pytest.raises(InvalidInput, match="a base is a Keras model"):
            graph_of(wrong)  # type: ignore[arg-type]


@keras.saving.register_keras_serializable("daskevo-tests")
class Forgetful(layers.Dense):
    """Its configuration leaves out that it is wider than asked."""

    def __init__(self, units: int, extra: int = 0, **options: object) -> None:
        super().__init__(units + extra, **options)

    def get_config(self) -> dict[str, object]:
        return {**super().get_config(), "units": 3}


def test_a_base_whose_configuration_says_something_else_is_refused() -> None:
    with pytest.raises(CannotRebuild, match="differs at layer"):
        graph_of(keras.Sequential([keras.Input((4,)), Forgetful(3, extra=2)]))
    assert len(graph_of(keras.Sequential([keras.Input((4,)), Forgetful(3)]))) == 2


def test_what_makes_no_model_is_refused() -> None:
    graph = graph_of(two_layers)
    graph.insert_after("dense", layer("Lambda", function="x"))
    with pytest.raises(CannotRebuild, match="runs code"):
        model_of(graph)
    graph = graph_of(two_layers)
    graph.insert_after("dense", layer("Conv2D", filters=1, kernel_size=1), "conv")
    with pytest.raises(CandidateRejected, match="Conv2D 'conv'"):
        model_of(graph)
    graph.delete("dense", bridge=False)
    with pytest.raises(InvalidMutation, match="has no input"):
        model_of(graph)


def test_a_graph_made_by_hand_is_a_model() -> None:
    graph = ModelGraph("hand")
    graph.add_input("one", layer("InputLayer", batch_shape=(None, 4)))
    graph.add_input("two", layer("InputLayer", batch_shape=(None, 4)))
    graph.create("join", layer("Concatenate"), ["one", "two"])
    graph.create("out", layer("Dense", units=2, activation="softmax"), ["join"])
    graph.outputs = ("out", "join")
    with shape_only():
        model = model_of(graph)
    assert (model.name, [tensor.shape[1] for tensor in model.outputs]) == ("hand", [2, 8])
