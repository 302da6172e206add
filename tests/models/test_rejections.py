"""Every model without an architecture graph is refused with its own reason, and told what to do instead."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from daskevo.errors import CannotFlatten
from daskevo.models import check_storable, flatten, rebuild, storable
from daskevo.models.rejections import REASONS
from daskevo.models.seeds import seeded
from tests.models.zoo import Subclassed

MODELS: list[tuple[str, Callable[[], keras.Model]]] = []


def refused(reason: str) -> Callable[[Callable[[], keras.Model]], Callable[[], keras.Model]]:
    def register(build: Callable[[], keras.Model]) -> Callable[[], keras.Model]:
        MODELS.append((reason, build))
        return build

    return register


def unregistered(x: Any) -> Any:
    return x + 1


def relu(x: Any) -> Any:
    """Has the name of one of Keras' functions."""
    return x * 3


def on_input(build: Callable[[Any], Any]) -> keras.Model:
    x = keras.Input((4,))
    return keras.Model(x, build(x))


@refused("no-graph")
def subclassed() -> keras.Model:
    model = Subclassed(3)
    model.build((None, 4))
    return model


@refused("overridden-call")
def functional_with_its_own_call() -> keras.Model:
    class Doubled(keras.Model):
        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            return 2 * super().call(inputs, training=training, mask=mask)

    x = keras.Input((4,))
    return Doubled(x, layers.Dense(2)(x))


@refused("overridden-call")
def nested_with_its_own_call() -> keras.Model:
    inner = functional_with_its_own_call()
    return on_input(inner)


@refused("overridden-call")
def sequential_with_its_own_call() -> keras.Model:
    class Doubled(keras.Sequential):
        def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
            return 2 * super().call(inputs)

    return Doubled([keras.Input((4,)), layers.Dense(2)])


@refused("not-built")
def sequential_without_input() -> keras.Model:
    return keras.Sequential([layers.Dense(2)])


@refused("nested-keyword-tensor")
def nested_with_a_mask_as_keyword() -> keras.Model:
    inner_input = keras.Input((5, 4))
    inner = keras.Model(inner_input, layers.LSTM(2)(inner_input))
    x, mask = keras.Input((5, 4)), keras.Input((5,), dtype="bool")
    return keras.Model([x, mask], inner(x, mask=mask))


@refused("nested-input")
def nested_with_another_rank() -> keras.Model:
    inner_input = keras.Input((4, 1))
    inner = keras.Model(inner_input, layers.Flatten()(inner_input))
    return on_input(inner)


@refused("free-variable")
def variable_in_an_operation() -> keras.Model:
    variable = keras.Variable(np.ones(4, "float32"))
    return on_input(lambda x: keras.ops.multiply(x, variable))


@refused("free-variable")
def tensorflow_variable_in_an_operation() -> keras.Model:
    variable = tf.Variable(np.ones(4, "float32"))
    return on_input(lambda x: keras.ops.multiply(x, variable))


@refused("config")
def layer_without_config() -> keras.Model:
    class Opaque(layers.Layer):
        def __init__(self, thing: Any) -> None:
            super().__init__()
            self.thing = thing

        def call(self, x: Any) -> Any:
            return x

    return on_input(Opaque(object()))


@refused("config")
def partial_as_activation() -> keras.Model:
    return on_input(layers.Dense(2, activation=functools.partial(keras.activations.relu, max_value=6)))


@refused("call-argument")
def object_as_call_argument() -> keras.Model:
    class Takes(layers.Layer):
        def call(self, x: Any, how: Any = None) -> Any:
            return x

    return on_input(lambda x: Takes()(x, how=object()))


@refused("call-argument")
def nested_with_an_argument_of_its_own() -> keras.Model:
    inner_input = keras.Input((4,))
    inner = keras.Sequential([inner_input, TellsMode()])
    inner._register_call_context_args("mode")
    return on_input(lambda x: inner(x, mode=True))


class TellsMode(layers.Layer):
    def call(self, x: Any, mode: bool = False) -> Any:
        return x


@refused("lambda")
def lambda_layer() -> keras.Model:
    return on_input(layers.Lambda(lambda x: x + 1, output_shape=(4,)))


@refused("lambda")
def lambda_inside_a_wrapper() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.TimeDistributed(layers.Lambda(lambda x: x + 1, output_shape=(4,)))(x))


@refused("lambda")
def lambda_activation() -> keras.Model:
    return on_input(layers.Dense(2, activation=lambda x: x + 1))


@refused("unregistered-function")
def unregistered_activation() -> keras.Model:
    return on_input(layers.Dense(2, activation=unregistered))


@refused("unregistered-function")
def activation_that_passes_for_one_of_keras() -> keras.Model:
    return on_input(layers.Dense(2, activation=relu))


@refused("unregistered-function")
def unregistered_initializer() -> keras.Model:
    def mine(shape: Any, dtype: Any = None) -> Any:
        return keras.ops.ones(shape, dtype)

    return on_input(layers.Dense(2, kernel_initializer=mine))


@refused("unregistered-function")
def unregistered_inside_a_wrapper() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.SpectralNormalization(layers.Dense(2, activation=unregistered))(x))


@refused("shared-variable")
def layer_inside_a_wrapper_and_outside() -> keras.Model:
    x = keras.Input((5, 4))
    dense = layers.Dense(4)
    return keras.Model(x, layers.TimeDistributed(dense)(dense(x)))


@keras.saving.register_keras_serializable("daskevo-tests")
class Borrows(layers.Layer):
    def __init__(self, lender: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.weight = lender.kernel if lender else None

    def call(self, x: Any) -> Any:
        return keras.ops.matmul(x, self.weight)

    def get_config(self) -> dict[str, Any]:
        return super().get_config()


@refused("shared-variable")
def borrowed_variable() -> keras.Model:
    lender = layers.Dense(4)

    def build(x: Any) -> Any:
        y = lender(x)
        return Borrows(lender)(y)

    return on_input(build)


@refused("weights-outside-graph")
def weight_of_the_model_itself() -> keras.Model:
    model = on_input(layers.Dense(2))
    model.temperature = layers.Dense(3)
    model.temperature.build((None, 2))
    return model


@refused("weights-outside-graph")
def nested_output_that_nobody_uses() -> keras.Model:
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, [layers.Dense(2)(inner_input), layers.Dense(3)(inner_input)])
    x = keras.Input((4,))
    return keras.Model(x, inner(x)[0])


@keras.saving.register_keras_serializable("daskevo-tests")
class Remembers(layers.Layer):
    """Keeps state by the hooks that Keras documents, beside its weights."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=())
        self.seen = np.zeros(3)

    def call(self, x: Any) -> Any:
        return x * self.scale

    def compute_output_shape(self, shape: Any) -> Any:
        return shape

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store["seen"] = self.seen

    def load_own_variables(self, store: Any) -> None:
        self.seen = store["seen"]


@keras.saving.register_keras_serializable("daskevo-tests")
class Renames(Remembers):
    """Uses the hook to save its weights, and no more."""

    def save_own_variables(self, store: Any) -> None:
        store["scale"] = self.scale.numpy()


@keras.saving.register_keras_serializable("daskevo-tests")
class HasFiles(layers.Layer):
    def call(self, x: Any) -> Any:
        return x

    def save_assets(self, path: str) -> None:
        """Whatever they are."""


@keras.saving.register_keras_serializable("daskevo-tests")
class Forgets(layers.Layer):
    """Leaves an argument out of its configuration."""

    def __init__(self, units: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def call(self, x: Any) -> Any:
        return keras.ops.repeat(x, self.units, -1)

    def get_config(self) -> dict[str, Any]:
        return super().get_config()


@refused("hidden-state")
def state_beside_the_weights() -> keras.Model:
    return on_input(Remembers())


@refused("hidden-state")
def state_inside_a_wrapper() -> keras.Model:
    x = keras.Input((5, 4))
    return keras.Model(x, layers.TimeDistributed(Remembers())(x))


@refused("hidden-state")
def state_in_files() -> keras.Model:
    return on_input(HasFiles())


@refused("rebuild")
def argument_that_is_left_out() -> keras.Model:
    return on_input(Forgets(5))


class Bears:
    """Objects and methods with the names of Keras' functions."""

    def __init__(self) -> None:
        self.__name__ = "relu"

    def __call__(self, x: Any) -> Any:
        return x * 3

    def relu(self, x: Any) -> Any:
        return x * 3


@keras.saving.register_keras_serializable("daskevo-tests")
class Several(layers.Layer):
    def __init__(self, functions: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.functions = functions

    def call(self, x: Any) -> Any:
        return self.functions[0](x)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "functions": self.functions}


for nameable in (
    tf.function(relu),
    Bears().relu,
    Bears(),
    abs,
    staticmethod(relu),
    tf.function(keras.activations.relu),
):

    @refused("unregistered-function")
    def only_a_name(function: Any = nameable) -> keras.Model:
        return on_input(layers.Dense(2, activation=function))

    @refused("unregistered-function")
    def only_a_name_in_a_list(function: Any = nameable) -> keras.Model:
        return on_input(Several([function]))


@pytest.mark.parametrize(("reason", "build"), MODELS, ids=[build.__name__ for _, build in MODELS])
@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
def test_refused_with_its_reason_and_a_way_out(reason: str, build: Callable[[], keras.Model]) -> None:
    model = build()

    with pytest.raises(CannotFlatten) as caught:
        check_storable(flatten(model))

    assert caught.value.reason == reason
    assert REASONS[reason] in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - as Dask moves errors between processes
    assert (again.reason, str(again)) == (reason, str(caught.value))


def test_a_hook_that_saves_weights_alone_is_fine() -> None:
    check_storable(flatten(on_input(Renames())))


def test_a_kind_of_model_is_rebuilt_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rebuilt: list[Any] = []
    monkeypatch.setattr(storable, "_known", set())
    monkeypatch.setattr(storable, "check_rebuild", lambda graph, known: rebuilt.append(graph))
    for units in (3, 4, 5):
        check_storable(flatten(on_input(layers.Dense(units))))
    check_storable(flatten(on_input(Forgets(3))))
    check_storable(flatten(on_input(Forgets(4))))
    assert len(rebuilt) == 3  # Keras' own by the way they are called, others by what they are


def test_looking_draws_no_seed() -> None:
    with seeded(5):
        expected = keras.initializers.GlorotUniform().seed
    flat = flatten(on_input(Renames()))
    with seeded(5):
        check_storable(flat)
        assert keras.initializers.GlorotUniform().seed == expected


def test_every_reason_has_a_model() -> None:
    assert {reason for reason, _ in MODELS} == set(REASONS)


@pytest.mark.parametrize("thing", [None, "model", object(), layers.Dense(2)])
def test_no_model_at_all(thing: Any) -> None:
    with pytest.raises(CannotFlatten) as caught:
        flatten(thing)
    assert caught.value.reason == "no-graph"


def test_lambdas_can_be_opted_in() -> None:
    model = lambda_layer()

    flat = flatten(model, allow_lambda=True)

    assert [layer.name for layer in flat.graph.layers][1:] == [model.layers[1].name]
    assert flatten(lambda_activation(), allow_lambda=True).graph.parameters == 10


def test_a_layer_may_name_its_functions_by_itself() -> None:
    @keras.saving.register_keras_serializable("daskevo-tests")
    class Chooses(layers.Layer):
        def __init__(self, how: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.name_of_how = how
            self.how = {"softly": unregistered, "not": lambda x: x}[how]

        def call(self, x: Any) -> Any:
            return self.how(x)

        def get_config(self) -> dict[str, Any]:
            return {**super().get_config(), "how": self.name_of_how}

    soft = flatten(on_input(Chooses("softly"))).graph
    assert soft.ids == flatten(rebuild(soft)).graph.ids


def test_messages_name_the_layer() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2, activation=unregistered, name="odd one")(x))
    with pytest.raises(CannotFlatten, match=r"Dense 'odd one'.*test_rejections.unregistered.*register_keras"):
        flatten(model)


def test_advice_for_a_lambda_can_be_followed_from_inherit() -> None:
    assert "allow_lambda" not in REASONS["lambda"]
    assert "register_keras_serializable" in REASONS["lambda"]
