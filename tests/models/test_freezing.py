"""Which layers freeze, and that what is frozen stays as it is through a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

from daskevo.errors import InvalidInput, ModelNotFresh
from daskevo.graph import longest_common_prefix
from daskevo.models import check_fresh, flatten, freeze, is_fresh, read_tensors, unfreeze, write_tensors
from tests.models.zoo import Block


def chain(last: int = 2, name: str = "x") -> keras.Model:
    x = keras.Input((4,), name=name)
    y = layers.Dense(5)(x)
    y = layers.Dropout(0.2)(y)
    y = layers.Dense(6)(y)
    y = layers.ReLU()(y)
    y = layers.Dense(7)(y)
    return keras.Model(x, layers.Dense(last)(y))


def frozen_names(model: keras.Model) -> list[str]:
    return [layer.name for layer in model.layers if not layer.trainable]


ALL = range(7)


def test_the_whole_prefix() -> None:
    model = chain()
    flat = flatten(model)
    freezing = freeze(flat, [0, 1, 2, 3, 4], "prefix")

    assert freezing.layers == (1, 3)
    assert freezing.tensors == (0, 1, 2, 3)
    assert freezing.share == 5 / 7
    assert frozen_names(model) == [model.layers[1].name, model.layers[3].name]


def test_an_identical_architecture_keeps_its_last_layer_with_weights() -> None:
    model = chain()
    freezing = freeze(flatten(model), ALL)
    assert freezing.layers == (1, 3, 5)
    assert freezing.share == 6 / 7
    assert model.layers[-1].trainable


def test_the_last_layer_with_weights_isnt_always_the_last() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, layers.Softmax()(layers.Dense(3)(layers.Dense(3)(x))))
    assert freeze(flatten(model), range(4)).layers == (1,)
    # Normalization has weights that nothing trains: it is frozen like any other, but never the last that trains.
    model = keras.Model(x, layers.Dense(3)(layers.Normalization()(layers.Dense(3)(x))))
    assert freeze(flatten(model), range(4)).layers == (1, 2)
    model = keras.Model(x, layers.Normalization()(layers.Dense(3)(layers.Dense(3)(x))))
    assert freeze(flatten(model), range(4)).layers == (1,)


def test_nothing() -> None:
    model = chain()
    freezing = freeze(flatten(model), ALL, "none")
    assert (freezing.layers, freezing.tensors, freezing.share) == ((), (), 0.0)
    assert frozen_names(model) == []


@pytest.mark.parametrize(
    ("share", "frozen"),
    [(0, ()), (0.3, ()), (0.34, (1,)), (0.5, (1,)), (2 / 3, (1, 3)), (1, (1, 3, 5)), (1.0, (1, 3, 5))],
)
def test_a_share_counts_from_the_inputs(share: float, frozen: tuple[int, ...]) -> None:
    assert freeze(flatten(chain()), ALL, share).layers == frozen


def test_a_function_is_asked_for_each_layer_with_weights() -> None:
    asked: list[int] = []

    def policy(layer: Any) -> bool:
        asked.append(layer.units)
        return layer.units != 6

    assert freeze(flatten(chain()), ALL, policy).layers == (1, 5)
    assert asked == [5, 6, 7]


@pytest.mark.parametrize("policy", ["all", -0.1, 1.1, float("nan"), None, True, object(), layers.Dense])
def test_other_policies_are_refused(policy: Any) -> None:
    model = chain()
    with pytest.raises(InvalidInput, match="is no policy for freezing"):
        freeze(flatten(model), ALL, policy)
    assert frozen_names(model) == []


def test_layers_out_of_range_are_refused() -> None:
    for wrong in ([7], [-1]):
        with pytest.raises(InvalidInput, match="layers 0 to 6"):
            freeze(flatten(chain()), wrong)


def test_a_layer_that_is_called_again_outside_the_prefix_goes_on_training() -> None:
    def siamese(units: int) -> keras.Model:
        x = keras.Input((4,))
        again, once = layers.Dense(4), layers.Dense(4, activation="relu")
        y = layers.Dense(units)(once(again(x)))
        return keras.Model(x, layers.Dense(1)(layers.Concatenate()([again(layers.Dense(4)(y)), y])))

    mine, theirs = flatten(siamese(3)), flatten(siamese(5))
    prefix = longest_common_prefix(mine.graph, theirs.graph)

    freezing = freeze(mine, prefix.freezable(mine.graph))

    # Input, first call of `again`, `once`: all inherited, but `once` stands behind what goes on training.
    assert len(prefix) == 3
    assert [number for number, _ in prefix.tensors(mine.graph, theirs.graph)] == [0, 1, 2, 3]
    assert freezing.tensors == ()
    assert mine.layers[1].trainable
    assert mine.layers[2].trainable


@keras.saving.register_keras_serializable("test_freezing")
class Positions(layers.Layer):
    """A trained scale beside a table that never changes."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(), initializer="ones")
        self.table = self.add_weight(shape=shape[1:], initializer="ones", trainable=False)

    def call(self, x: Any) -> Any:
        return self.scale * x + self.table


def test_steps_count_of_what_trains_and_freezing_is_closed_towards_the_inputs() -> None:
    def model(first: bool = True) -> Any:
        x = keras.Input((4,))
        return flatten(
            keras.Model(x, layers.Dense(2)(layers.Dense(3)(Positions()(x) if first else layers.Dense(4)(x))))
        )

    old = dict.fromkeys(range(4), 300)
    # Tensor 1, the table, has the steps of its first training for ever.
    assert freeze(model(), [1, 2], "steps:200", {**old, 1: 100}).layers == (1, 2)
    # The first layer goes on training, so nothing behind it freezes, but where a function says so.
    assert freeze(model(), [1, 2], "steps:200", {**old, 0: 100}).layers == ()
    assert freeze(model(first=False), [1, 2], "steps:200", {**old, 0: 100}).layers == ()
    assert freeze(model(), [1, 2], lambda layer: isinstance(layer, layers.Dense)).layers == (2,)
    # What the user froze doesn't train.
    flat = model()
    flat.layers[1].trainable = False
    assert freeze(flat, [2], "steps:200", old).layers == (2,)


def test_statistics_that_move_have_steps_too() -> None:
    x = keras.Input((4,))
    flat = flatten(keras.Model(x, layers.Dense(2)(layers.BatchNormalization(center=False, scale=False)(x))))
    assert freeze(flat, [1], "steps:200", {0: 199, 1: 199}).layers == ()
    assert freeze(flat, [1], "steps:200", {0: 200, 1: 200}).layers == (1,)


def test_unfreezing_leaves_what_was_frozen_before() -> None:
    model = chain()
    mine = model.layers[3]
    mine.trainable = False
    freezing = freeze(flatten(model), ALL)
    assert frozen_names(model) == [model.layers[1].name, mine.name, model.layers[5].name]
    unfreeze(freezing)
    assert frozen_names(model) == [mine.name]


def test_unfreezing_leaves_what_was_frozen_before_inside_a_layer() -> None:
    x = keras.Input((5, 4))
    model = keras.Model(x, layers.Dense(1)(layers.Bidirectional(layers.GRU(2))(x)))
    wrapper = model.layers[1]
    wrapper.backward_layer.trainable = False
    trained = [weight.path for weight in model.trainable_weights]
    freezing = freeze(flatten(model), [1])
    assert len(model.trainable_weights) == 2
    unfreeze(freezing)
    assert wrapper.trainable
    assert not wrapper.backward_layer.trainable
    assert [weight.path for weight in model.trainable_weights] == trained


@pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")
def test_what_is_frozen_stays_bit_identical_through_a_fit() -> None:
    """Failure kind 25: BatchNormalization at top level, in a nested model and inside a custom layer."""

    def build(units: int) -> keras.Model:
        inner_input = keras.Input((6,))
        inner = keras.Model(inner_input, layers.BatchNormalization()(layers.Dense(6)(inner_input)))
        x = keras.Input((4,))
        y = layers.BatchNormalization()(layers.Dense(6)(x))
        y = layers.Dropout(0.3)(Block(6)(inner(y)))
        return keras.Model(x, layers.Dense(1)(layers.Dense(units)(y)))

    parent = flatten(build(3))
    model = build(4)
    child = flatten(model)
    prefix = longest_common_prefix(child.graph, parent.graph)
    pairs = prefix.tensors(child.graph, parent.graph)
    values = read_tensors(parent)
    write_tensors(child, {mine: values[theirs] for mine, theirs in pairs})
    freezing = freeze(child, prefix.freezable(child.graph))
    assert set(freezing.tensors) == {mine for mine, _ in pairs}
    assert len(freezing.tensors) == 6 + 6 + 6

    model.compile("adam", "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(5, 3, (64, 4)), rng.normal(size=(64, 1)), epochs=2, batch_size=8, verbose=0)

    after = read_tensors(child)
    for mine, theirs in pairs:
        assert after[mine].tobytes() == values[theirs].tobytes()
    trained = [number for number in range(len(after)) if number not in freezing.tensors]
    assert len(trained) == 4


class Running(layers.Layer):  # type: ignore[misc]
    """Keeps a mean of what it has seen, as a layer of a user's does."""

    def build(self, shape: Any) -> None:
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.update(x)
        return x - self.mean

    def update(self, x: Any) -> None:
        self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(x, tuple(range(len(x.shape) - 1))))


class Obedient(Running):
    def update(self, x: Any) -> None:
        if self.trainable:
            super().update(x)


class Derived(Running):
    def call(self, x: Any, training: bool = False) -> Any:
        return 2 * super().call(x, training=training)


class Constant(Running):
    def build(self, shape: Any) -> None:
        super().build(shape)
        self.mean.assign(keras.ops.ones(shape[-1]))

    def update(self, x: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "is_moving"),
    [
        (lambda: layers.SpectralNormalization(layers.Dense(4)), True),
        (lambda: Running(), True),
        (lambda: Derived(), True),
        (lambda: layers.TimeDistributed(layers.SpectralNormalization(layers.Dense(4))), True),
        (lambda: layers.LSTM(4, stateful=True, return_sequences=True), True),
        (lambda: layers.LSTM(4, return_sequences=True), False),
        (lambda: layers.BatchNormalization(), False),
        (lambda: Constant(), False),
        (lambda: layers.Dense(4), False),
    ],
)
def test_what_changes_in_its_call_is_not_frozen_and_nothing_behind_it(make: Callable[[], Any], is_moving: bool) -> None:
    x = keras.Input(batch_shape=(2, 3, 4))
    y = layers.Dense(4)(make()(layers.Dense(4)(x)))
    model = keras.Model(x, layers.Dense(1)(layers.Dense(5)(y)))
    flat = flatten(model)
    freezing = freeze(flat, range(4))
    assert (freezing.layers, freezing.moving) == (((1,), (2,)) if is_moving else ((1, 2, 3), ()))
    assert freezing.share == (1 + len(freezing.layers)) / len(flat.graph.vertices)
    front = keras.Model(x, model.layers[len(freezing.layers)].output)
    before = front.predict(np.ones((2, 3, 4)), verbose=0)
    model.compile("adam", "mse")
    model.fit(np.ones((4, 3, 4)), np.zeros((4, 3, 1)), batch_size=2, verbose=0)
    np.testing.assert_array_equal(front.predict(np.ones((2, 3, 4)), verbose=0), before)


def test_a_layer_that_asks_whether_it_is_trainable_is_frozen() -> None:
    x = keras.Input((4,))
    flat = flatten(keras.Model(x, layers.Dense(1)(Obedient()(x))))
    assert freeze(flat, [1]).layers == (1,)


def test_freshness() -> None:
    model = chain()
    assert is_fresh(model)
    check_fresh(model)
    model.predict(np.zeros((1, 4)), verbose=0)
    assert is_fresh(model)

    model.compile("sgd", "mse")
    assert not is_fresh(model)
    with pytest.raises(ModelNotFresh, match="compile it after inheriting"):
        check_fresh(model)
    model.fit(np.zeros((2, 4)), np.zeros((2, 2)), verbose=0)
    model.compiled = False
    model.optimizer = None
    assert not is_fresh(model)


def test_a_compiled_model_inside_is_no_matter() -> None:
    inner = chain()
    inner.compile("sgd", "mse")
    x = keras.Input((4,))
    assert is_fresh(keras.Model(x, layers.Dense(1)(inner(x))))
