"""`fast_fit` against Keras' own `fit`: the same batches, seeds and options, so the same weights, slots and history."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

from daskevo_workflows.fitting import fast_fit, fused, obstacle
from daskevo_workflows.fitting.fused import is_elementwise

layers = keras.layers
ROWS = 44
"""Batches of 16 leave a last one of 12."""


def plain_fit(model: Any, *data: Any, **options: Any) -> Any:
    return model.fit(*data, **options)


def dense(**settings: Any) -> keras.Model:
    inputs = keras.Input((5,))
    hidden = layers.Dense(4, "gelu", **settings)(inputs)
    return keras.Model(inputs, layers.Dense(3, "softmax")(hidden))


def with_state() -> keras.Model:
    """Dropout draws from a seed, BatchNormalization counts, a regularizer and a constraint act on the kernel."""
    return keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(4, kernel_regularizer="l2", kernel_constraint="max_norm"),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(3, "softmax"),
        ]
    )


def with_a_frozen_layer() -> keras.Model:
    model = dense()
    model.layers[1].trainable = False
    return model


def embedding() -> keras.Model:
    inputs = keras.Input((3,), dtype="int32")
    return keras.Model(inputs, layers.Dense(3, "softmax")(layers.Flatten()(layers.Embedding(6, 2)(inputs))))


def two_outputs() -> keras.Model:
    inputs = {"a": keras.Input((5,), name="a"), "b": keras.Input((2,), name="b")}
    joined = layers.Concatenate()([inputs["a"], inputs["b"]])
    return keras.Model(
        inputs,
        {"kind": layers.Dense(3, "softmax", name="kind")(joined), "size": layers.Dense(1, name="size")(joined)},
    )


def one_output_in_a_list() -> keras.Model:
    inputs = keras.Input((5,))
    return keras.Model(inputs, [layers.Dense(3, "softmax")(inputs)])


def subclass(cls: type[keras.Model]) -> keras.Model:
    inputs = keras.Input((5,))
    return cls(inputs, layers.Dense(3, "softmax")(inputs))


class OwnCall(keras.Model):
    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        return super().call(inputs, training, mask)[:, :1] + 1.0


def with_its_own_call() -> keras.Model:
    return subclass(OwnCall)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((ROWS, *shape)).astype(np.float32)


def classes() -> Any:
    return np.random.default_rng(1).integers(0, 3, ROWS)


def state(model: keras.Model) -> list[Any]:
    """All that training changes: weights, statistics, seeds, slots, steps."""
    return [np.asarray(variable) for variable in [*model.variables, *model.optimizer.variables]]


def fitted(
    fit: Callable[..., Any], build: Callable[[], keras.Model], compiling: Any, *data: Any, **options: Any
) -> Any:
    keras.utils.set_random_seed(3)
    model = build()
    compiling = compiling() if callable(compiling) else compiling
    model.compile(**{"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], **compiling})
    made = {name: value() if callable(value) else value for name, value in options.items()}
    history = fit(model, *data, **{"batch_size": 16, "epochs": 2, "verbose": 0, **made})
    return model, history


def assert_equal_fits(build: Any, compiling: Any, *data: Any, **options: Any) -> tuple[keras.Model, Any]:
    """Fit both ways; states are equal to rounding (bit for bit, unless the graph optimizer rewrites a formula)."""
    expected, expected_history = fitted(plain_fit, build, compiling, *data, **options)
    model, history = fitted(fast_fit, build, compiling, *data, **options)
    assert obstacle(model) is None
    for found, wanted in zip(state(model), state(expected), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7)
    assert history.epoch == expected_history.epoch
    assert list(history.history) == list(expected_history.history)
    for name, values in history.history.items():
        np.testing.assert_allclose(values, expected_history.history[name], rtol=2e-6, atol=2e-7)
    return model, history


OPTIMIZERS = keras.optimizers
SCHEDULE = OPTIMIZERS.schedules.ExponentialDecay(0.02, 2, 0.5)


@pytest.mark.parametrize(
    ("optimizer", "fuses"),
    [
        (lambda: OPTIMIZERS.Adam(0.01), True),
        (lambda: OPTIMIZERS.Lamb(0.01), False),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (lambda: OPTIMIZERS.Adam(SCHEDULE, amsgrad=True, global_clipnorm=0.1), True),
                (lambda: OPTIMIZERS.Adam(0.01, clipnorm=0.1, gradient_accumulation_steps=2), True),
                (lambda: OPTIMIZERS.SGD(0.1), True),
                (lambda: OPTIMIZERS.SGD(0.1, momentum=0.9, nesterov=True, clipvalue=0.01), True),
                (lambda: OPTIMIZERS.RMSprop(0.01, momentum=0.5, centered=True), True),
                (lambda: OPTIMIZERS.Adagrad(0.1, use_ema=True, ema_overwrite_frequency=2), True),
                (lambda: OPTIMIZERS.Adadelta(1.0), True),
                (lambda: OPTIMIZERS.Adamax(0.01), True),
                (lambda: OPTIMIZERS.Ftrl(0.1), True),
                (lambda: OPTIMIZERS.Lion(0.001), True),
                (lambda: OPTIMIZERS.Nadam(0.01), False),
            )
        ),
    ],
    ids=lambda value: type(value()).__name__ if callable(value) else None,
)
def test_optimizers(optimizer: Callable[[], Any], fuses: bool) -> None:
    assert is_elementwise(optimizer()) == fuses
    model, _ = assert_equal_fits(dense, lambda: {"optimizer": optimizer()}, numbers(5), classes())
    assert int(model.optimizer._iterations) == 6


@pytest.mark.long
def test_weight_decay_spares_what_is_excluded() -> None:
    def compiling() -> dict[str, Any]:
        optimizer = OPTIMIZERS.AdamW(0.01, weight_decay=0.3)
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        return {"optimizer": optimizer}

    assert_equal_fits(dense, compiling, numbers(5), classes())


class Sign(OPTIMIZERS.SGD):
    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_sub(variable, keras.ops.sign(gradient) * keras.ops.cast(learning_rate, variable.dtype))


class SlowBiases(OPTIMIZERS.SGD):
    def assign_sub(self, variable: Any, value: Any) -> None:
        super().assign_sub(variable, value * (0.1 if len(variable.shape) == 1 else 1.0))


@pytest.mark.long
@pytest.mark.parametrize("own", [Sign, SlowBiases])
def test_a_formula_of_ones_own_is_left_alone(own: type[Any]) -> None:
    assert not is_elementwise(own(0.1))
    assert_equal_fits(dense, lambda: {"optimizer": own(0.1)}, numbers(5), classes())


@pytest.mark.parametrize("build", [with_state, with_a_frozen_layer])
def test_layers_with_state_and_frozen_ones(build: Callable[[], keras.Model]) -> None:
    assert_equal_fits(build, {"optimizer": "adam"}, numbers(5), classes())


@pytest.mark.long
@pytest.mark.parametrize(
    ("build", "loss"), [(one_output_in_a_list, "sparse_categorical_crossentropy"), (with_its_own_call, "mse")]
)
def test_losses_and_metrics_are_made_for_what_a_call_returns(build: Callable[[], keras.Model], loss: str) -> None:
    """Keras chooses between binary and categorical accuracy by the output's shape."""
    assert_equal_fits(build, {"optimizer": "adam", "loss": loss}, numbers(5), classes())


@pytest.mark.long
def test_embeddings() -> None:
    x = np.random.default_rng(0).integers(0, 6, (ROWS, 3))
    assert_equal_fits(embedding, {"optimizer": "adam"}, x, classes())


@pytest.mark.long
def test_large_variables_are_updated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused, "ALONE", 8)
    assert_equal_fits(dense, {"optimizer": "adam"}, numbers(5), classes())


@pytest.mark.long
def test_mixed_precision() -> None:
    def build() -> keras.Model:
        return dense(dtype="mixed_float16")

    def compiling() -> dict[str, Any]:
        # A scale that is too large at first: steps are left out until it has been halved.
        scaled = OPTIMIZERS.LossScaleOptimizer(OPTIMIZERS.Adam(0.01), initial_scale=2.0**40)
        return {"optimizer": scaled}

    model, _ = assert_equal_fits(build, compiling, numbers(5), classes(), epochs=8)
    assert 0 < int(model.optimizer.iterations) < 24


@pytest.mark.long
def test_several_inputs_and_outputs_by_name() -> None:
    x = {"a": numbers(5), "b": numbers(2, seed=1)}
    y = {"kind": classes(), "size": numbers(1, seed=2)}
    compiling = {
        "optimizer": "adam",
        "loss": {"kind": "sparse_categorical_crossentropy", "size": "mse"},
        "loss_weights": {"kind": 0.5, "size": 2.0},
        "metrics": {"kind": ["accuracy"], "size": ["mae"]},
    }
    _, history = assert_equal_fits(two_outputs, compiling, x, y, validation_data=(x, y))
    assert {"kind_loss", "size_loss", "kind_accuracy", "size_mae", "val_size_mae"} <= set(history.history)


@pytest.mark.long
def test_weights_of_classes_and_samples() -> None:
    compiling = {"optimizer": "adam", "weighted_metrics": ["accuracy"], "metrics": None}
    assert_equal_fits(dense, compiling, numbers(5), classes(), class_weight={0: 1.0, 1: 3.0, 2: 0.2}, shuffle=False)
    assert_equal_fits(dense, compiling, numbers(5), classes(), sample_weight=np.linspace(0, 1, ROWS))


class Batches(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        rows = slice(16 * index, 16 * index + 16)
        return numbers(5)[rows], classes()[rows]


def generated() -> Iterator[Any]:
    while True:
        yield from (Batches()[index] for index in range(3))


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"validation_split": 0.25, "validation_freq": 2},
        {"initial_epoch": 1, "steps_per_epoch": 1, "epochs": 3},
        {"x": Batches, "batch_size": None},
        {"x": generated, "batch_size": None, "steps_per_epoch": 2, "shuffle": False},
    ],
    ids=["validation", "epochs", "PyDataset", "generator"],
)
def test_data_and_epochs(options: dict[str, Any]) -> None:
    given = {**({} if "x" in options else {"x": numbers(5), "y": classes()}), **options}
    assert_equal_fits(dense, {"optimizer": "adam"}, **{"epochs": 4, **given})


@pytest.mark.long
def test_a_dataset_of_unknown_length() -> None:
    import tensorflow as tf

    batches = [(numbers(5)[start : start + 16], classes()[start : start + 16]) for start in (0, 16, 32)]
    signature = (tf.TensorSpec((None, 5), tf.float32), tf.TensorSpec((None,), tf.int64))
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    with pytest.warns(UserWarning, match="ran out of data"):
        assert_equal_fits(dense, {"optimizer": "adam"}, dataset, batch_size=None, shuffle=False)


class Diary(keras.callbacks.Callback):
    """Notes each hook, and what can be read of the model in it; ends training in the middle of the third epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, Any]] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.lines.append(("begin", self.params["steps"]))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.lines.append(("epoch", epoch))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.lines.append(("batch", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        slots = [np.abs(np.asarray(variable, np.float64)).sum() for variable in self.model.optimizer.variables]
        self.lines.append(("batch ends", (batch, float(logs["loss"]), float(logs["accuracy"]), *slots)))
        if len([line for line in self.lines if line[0] == "batch ends"]) == 8:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.lines.append(("epoch ends", (epoch, *sorted(logs))))

    def on_train_end(self, logs: Any = None) -> None:
        self.lines.append(("end", sorted(logs)))


def test_callbacks_see_and_do_the_same() -> None:
    diaries: list[Diary] = []

    def callbacks() -> list[Any]:
        diaries.append(Diary())
        return [diaries[-1]]

    data = (numbers(5), classes())
    assert_equal_fits(dense, {"optimizer": "adam"}, *data, epochs=5, callbacks=callbacks, validation_data=data)
    plain, fast = (diary.lines for diary in diaries)
    assert [what for what, _ in fast] == [what for what, _ in plain]
    for (what, found), (_, wanted) in zip(fast, plain, strict=True):
        assert found == pytest.approx(wanted, rel=2e-6) if what == "batch ends" else found == wanted
    assert [what for what, _ in fast].count("epoch") == 3


@pytest.mark.long
def test_early_stopping_puts_the_best_weights_back() -> None:
    def callbacks() -> list[Any]:
        return [keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)]

    data = (numbers(5), classes())
    validation = (numbers(5, seed=7), classes())
    _, history = assert_equal_fits(
        dense,
        lambda: {"optimizer": OPTIMIZERS.Adam(0.3)},
        *data,
        epochs=20,
        callbacks=callbacks,
        validation_data=validation,
    )
    assert len(history.epoch) < 20


class Halving(keras.callbacks.Callback):
    """Writes into the optimizer and the weights while training goes on."""

    def on_train_begin(self, logs: Any = None) -> None:
        self.model.optimizer.clipnorm = 0.1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = 0.1 / (batch + 1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        last = self.model.layers[-1]
        last.set_weights([value / 2 for value in last.get_weights()])


@pytest.mark.long
@pytest.mark.parametrize(
    "callback",
    [
        Halving,
        lambda: keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2),
        lambda: keras.callbacks.ReduceLROnPlateau("loss", factor=0.3, patience=1, min_delta=1.0),
        keras.callbacks.SwapEMAWeights,
    ],
    ids=["Halving", "LearningRateScheduler", "ReduceLROnPlateau", "SwapEMAWeights"],
)
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras reads the rate so
def test_callbacks_that_change_optimizer_and_weights(callback: Callable[[], Any]) -> None:
    def compiling() -> dict[str, Any]:
        return {"optimizer": OPTIMIZERS.Adam(0.05, use_ema=callback is keras.callbacks.SwapEMAWeights)}

    data = (numbers(5), classes())
    assert_equal_fits(dense, compiling, *data, epochs=4, callbacks=lambda: [callback()], validation_data=data)


class Counting(layers.Layer):
    """Counts how often Python runs its call with `training`: once for each trace of the step."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[bool] = []

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self.traces.append(training)
        return inputs * 1.0


def counting() -> keras.Model:
    inputs = keras.Input((5,))
    hidden = Counting()(layers.Dense(4)(inputs))
    return keras.Model(inputs, [layers.Dense(3, "softmax")(hidden), layers.Dense(1)(hidden)])


def test_the_step_is_traced_once() -> None:
    compiling = {
        "optimizer": "adam",
        "loss": ["sparse_categorical_crossentropy", "mse"],
        "metrics": ["accuracy", "mae"],
    }
    y = [classes(), numbers(1, seed=2)]
    model, _ = fitted(plain_fit, counting, compiling, numbers(5), y)
    assert len(model.layers[2].traces) == 2
    model, _ = fitted(fast_fit, counting, compiling, numbers(5), y)
    assert len(model.layers[2].traces) == 1


def test_fitting_on_and_single_batches() -> None:
    models = []
    for fit in (plain_fit, fast_fit):
        model, _ = fitted(fit, dense, {"optimizer": "adam"}, numbers(5), classes(), epochs=1)
        fit(model, numbers(5), classes(), batch_size=16, epochs=1, verbose=0)
        loss, accuracy = model.train_on_batch(numbers(5), classes())
        assert 0 <= accuracy <= 1 < loss + 1
        models.append(model)
    for found, wanted in zip(state(models[1]), state(models[0]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7)


def test_a_model_compiled_again_gets_a_new_step() -> None:
    model, _ = fitted(fast_fit, dense, {"optimizer": "adam"}, numbers(5), classes(), epochs=1)
    frozen, before = model.layers[1], model.layers[1].get_weights()
    frozen.trainable = False
    model.compile("sgd", "sparse_categorical_crossentropy")
    fast_fit(model, numbers(5), classes(), verbose=0)
    for found, wanted in zip(frozen.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, wanted)
    assert len(model.optimizer.variables) == 2


def test_errors_are_those_of_keras() -> None:
    for fit in (plain_fit, fast_fit):
        with pytest.raises(ValueError, match="received 2 input tensors"):
            fitted(fit, dense, {"optimizer": "adam"}, [numbers(5), numbers(5)], classes())
        with pytest.raises(ValueError, match="cardinality"):
            fitted(fit, dense, {"optimizer": "adam"}, numbers(5)[:7], classes())


class OwnStep(keras.Model):
    def train_step(self, data: Any) -> Any:
        return {**super().train_step(data), "seen": 1.0}


class OwnFit(keras.Model):
    def fit(self, *data: Any, **options: Any) -> Any:
        return super().fit(*data, **options)


@pytest.mark.parametrize(
    ("build", "compiling", "reason"),
    [
        (lambda: subclass(OwnStep), {}, "its own train_step"),
        (lambda: subclass(OwnFit), {}, "its own fit"),
        (dense, {"run_eagerly": True}, "eagerly"),
        *(
            pytest.param(dense, compiling, reason, marks=pytest.mark.long)
            for compiling, reason in (
                ({"steps_per_execution": 2}, "2 steps per execution"),
                ({"jit_compile": True}, "XLA"),
                ({"optimizer": lambda: OPTIMIZERS.ScheduleFreeAdamW(0.01)}, "ScheduleFreeAdamW has its own build"),
            )
        ),
        (lambda: keras.Sequential([layers.Dense(3, "softmax")]), {}, "not built"),
    ],
)
def test_what_it_does_not_cover_is_fitted_as_ever(
    build: Callable[[], keras.Model], compiling: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"optimizer": "sgd", **compiling}

    def compiling_anew() -> dict[str, Any]:
        return {name: value() if callable(value) else value for name, value in options.items()}

    data = (numbers(5), classes())
    with caplog.at_level(logging.INFO, logger="daskevo_workflows.fitting"):
        model, history = fitted(fast_fit, build, compiling_anew, *data)
    assert reason in caplog.text
    expected, expected_history = fitted(plain_fit, build, compiling_anew, *data)
    assert history.history == expected_history.history
    for found, wanted in zip(state(model), state(expected), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_further_obstacles() -> None:
    assert "optimizer" in str(obstacle(dense()))
    compiled = dense()
    compiled.compile("adam", "mse", jit_compile=True)
    assert "XLA" in str(obstacle(compiled))
    frozen = dense()
    frozen.trainable = False
    frozen.compile("adam", "mse")
    assert "trainable" in str(obstacle(frozen))


def test_an_optimizer_is_left_as_it_was() -> None:
    model, _ = fitted(fast_fit, dense, {"optimizer": "adam"}, numbers(5), classes())
    optimizer = model.optimizer
    assert {"_backend_update_step", "_get_variable_index"}.isdisjoint(vars(optimizer))
    assert [tuple(slot.shape) for slot in optimizer._momentums] == [tuple(v.shape) for v in model.trainable_variables]
    assert optimizer._get_variable_index(model.trainable_variables[2]) == 2
