"""What can't be trained in stages is refused before anything is trained, with a sentence that says what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from daskevo.errors import CorruptRecord, DaskevoError, InvalidInput, InvalidProblem
from daskevo.tuning import Configuration, Constant, Exponential, Linear, MultiStep
from daskevo_workflows.problems import Data
from daskevo_workflows.stage_training import begin, check, check_exact, origin, resume
from tests.logs import said_by_daskevo
from tests.workflows.stage_training.problems import SAMPLES, always, build, data, layers, problem, trajectory

RATE = {"learning_rate": Constant(0.05)}


@pytest.mark.parametrize("unit", ["optimizer step", "epoch"])
@pytest.mark.parametrize(
    ("size", "step"),
    [
        (Constant(0), 0),
        (Constant(-8), 0),
        (Constant(2.5), 0),
        (Constant(SAMPLES + 1), 0),
        (MultiStep(8, (3,), 8), 3),
        (Linear(8, 0, 4), 4),
    ],
)
def test_batch_sizes(size: Any, step: int, unit: Any) -> None:
    configuration = Configuration({**RATE, "batch_size": size}, unit=unit)
    with pytest.raises(
        InvalidInput, match=rf"batch_size is .* at step {step}, and the data have {SAMPLES} samples"
    ) as said:
        check(problem(eager=True), configuration, data(), until=6)
    assert said.value.step == step


def test_batch_sizes_where_they_are_met() -> None:
    """Nothing is trained until a step whose batch size can't be; an earlier one can be reached."""
    along = trajectory(batch_size=MultiStep(8, (3,), 8))
    training = begin(problem(eager=True), along, data(), seed=0)
    with pytest.raises(InvalidInput, match="at step 3"):
        training.advance(4, always)
    assert training.step == 0
    assert training.advance(3, always) == 3


@pytest.mark.parametrize("size", [0, 2.5, True, "8", SAMPLES + 1])
def test_batch_sizes_that_are_constants(size: Any) -> None:
    with pytest.raises(InvalidInput, match="batch_size is"):
        check(problem(eager=True), Configuration(RATE, {"batch_size": size}), data())


def test_values_that_are_no_numbers() -> None:
    with pytest.raises(InvalidInput, match=r"learning_rate.*at step"):
        check(problem(eager=True), Configuration({"learning_rate": Exponential(1e300, 1e10)}), until=9)


def test_hyperparameters_that_nobody_takes() -> None:
    taken: list[dict[str, float]] = []

    def batch(x: Any, y: Any, values: Any, generator: Any) -> Any:
        taken.append({"augmentation": values["augmentation"]})
        return x, y

    for configuration in (
        Configuration({**RATE, "augmentation": Constant(0.1)}),
        Configuration({**RATE, "beta_1": Constant(0.1)}),  # SGD has none
        Configuration(RATE, {"dorpout": 0.1}),
    ):
        with pytest.raises(InvalidInput, match="nobody takes the hyper-parameter") as said:
            check(problem(eager=True), configuration, data())
        assert said.value.name in ("augmentation", "beta_1", "dorpout")
    with_batch = problem(eager=True, batch=batch)
    check(with_batch, Configuration({**RATE, "augmentation": Constant(0.1)}), data())
    assert taken == [{"augmentation": 0.1}]
    with pytest.raises(InvalidInput, match="input_length"):
        check(with_batch, Configuration({**RATE, "augmentation": Constant(0.1), "input_length": Constant(3)}), data())
    check(problem("Adam", eager=True), Configuration({**RATE, "beta_1": Constant(0.1)}, {"dropout": 0.1}), data())


def test_constants_of_the_optimizer_that_compile_does_not_ask_for() -> None:
    along = trajectory(constants={"momentum": 0.5})
    training = begin(problem("plain SGD", eager=True), along, data(), seed=0)
    assert len(training.snapshot().attached) > len(
        begin(problem("plain SGD", eager=True), trajectory(), data(), seed=0).snapshot().attached
    )


def compiled_with(**settings: Any) -> Callable[[Any, Any], None]:
    def compile(model: Any, hyperparameters: Any) -> None:
        given = {name: value() for name, value in settings.items()}
        model.compile(**{"loss": "sparse_categorical_crossentropy", "run_eagerly": True, **given})

    return compile


class Own(keras.optimizers.SGD):
    pass


def test_optimizers_whose_settings_can_not_change() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    scheduled = problem(compile=compiled_with(optimizer=lambda: keras.optimizers.SGD(schedule)))
    with pytest.raises(InvalidInput, match="a schedule of its own"):
        check(scheduled, Configuration(RATE))
    check(scheduled, Configuration({"batch_size": Constant(4)}))
    own = problem(compile=compiled_with(optimizer=lambda: Own(0.1)))
    check(own, Configuration(RATE))
    with pytest.raises(InvalidInput, match="isn't one of Keras' own"):
        check(own, Configuration({**RATE, "momentum": Constant(0.1)}))


def of_fixed_size(choices: Any) -> Any:
    inputs = keras.Input((6,), batch_size=8)
    return keras.Model(inputs, layers.Dense(2, "softmax")(inputs))


def frozen(choices: Any) -> Any:
    model = build(choices)
    model.trainable = False
    return model


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"build": of_fixed_size}, "fixed batch size"),
        ({"build": frozen}, "nothing in it is trainable"),
        ({"compile": compiled_with(optimizer=lambda: None)}, "no optimizer of Keras'"),
        ({"fit": lambda model, x, y, **options: None}, "fit.. of its own"),
        ({"build": lambda choices: None}, "no keras.Model"),
        ({"compile": None}, "no compile"),
    ],
)
def test_problems(parts: dict[str, Any], says: str) -> None:
    with pytest.raises((InvalidInput, InvalidProblem), match=says):
        check(problem(eager=True, **parts), Configuration(RATE))


class ByTensorFlow(layers.Layer):
    """Draws from TensorFlow's own generator, whose position nobody knows."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        return inputs + tf.random.normal(tf.shape(inputs)) if training else inputs

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


def test_random_numbers_of_tensorflow() -> None:
    def build(choices: Any) -> Any:
        inputs = keras.Input((6,))
        return keras.Model(inputs, layers.Dense(2, "softmax")(ByTensorFlow()(inputs)))

    training = begin(problem(build=build), trajectory(), data(), seed=0)
    with pytest.raises(InvalidInput, match=r"RandomStandardNormal.*SeedGenerator"):
        training.advance(1, always)


class Counting(layers.Layer):
    """Counts its calls in a variable of TensorFlow's, in a branch if it is told so, or only reads it."""

    def __init__(self, how: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how = how
        self.count = tf.Variable(1.0, trainable=False, name="count")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training and self.how == "plain":
            self.count.assign_add(1.0)
        if training and self.how == "branch":
            tf.cond(tf.reduce_sum(inputs) > 0, lambda: self.count.assign(2.0), lambda: self.count.assign_sub(1.0))
        if training and self.how == "loop":
            tf.while_loop(lambda n: n < 2, lambda n: (n + tf.cast(self.count.assign_add(1.0) > 0, "int32"),), (0,))
        return inputs * self.count

    def compute_output_shape(self, shape: Any) -> Any:
        return shape


@pytest.mark.parametrize("how", ["plain", "branch", "loop", "reads"])
def test_changes_of_variables_that_keras_does_not_know(how: str) -> None:
    def build(choices: Any) -> Any:
        inputs = keras.Input((6,))
        return keras.Model(inputs, layers.Dense(2, "softmax")(Counting(how)(inputs)))

    training = begin(problem(build=build), trajectory(), data(), seed=0)
    if how == "reads":
        training.advance(1, always)
        return
    with pytest.raises(InvalidInput, match=r"doesn't know, and that no snapshot holds: count.*add_weight"):
        training.advance(1, always)


class Shuffling(keras.utils.PyDataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> Any:
        x, y = data().train
        return x[number::2], y[number::2]

    def on_epoch_end(self) -> None:
        pass


class Still(Shuffling):
    on_epoch_end = keras.utils.PyDataset.on_epoch_end


def test_data_whose_order_can_not_be_found_again() -> None:
    x, y = data().train
    for train, says in (
        (((x, y) for _ in range(3)), "generator"),
        (tf.data.Dataset.from_tensor_slices((x, y)), "Dataset"),
        (Shuffling(), "on_epoch_end"),
        (x[:0], "no samples"),
        (x[:3], "as many each"),
        (np.array([None, "a"]), "no array of numbers"),
    ):
        with pytest.raises(InvalidInput, match=says):
            check(
                problem(eager=True),
                Configuration(RATE),
                Data((train, y[: len(x[:0])] if says == "no samples" else y), (x, y)),
            )
    with pytest.raises(InvalidInput, match="PyDataset, which makes batches itself"):
        check(problem(eager=True), Configuration({**RATE, "batch_size": Constant(8)}), Data((Still(), None), (x, y)))
    with pytest.raises(InvalidInput, match="return Data"):
        check(problem(eager=True), Configuration(RATE), {"x": 1})


@pytest.fixture(scope="module")
def middle() -> Any:
    training = begin(problem(eager=True), trajectory(constants={"dropout": 0.2}), data(), seed=3)
    training.advance(2, always)
    return training.snapshot()


ALONG = trajectory(constants={"dropout": 0.2})


def larger(choices: Any) -> Any:
    inputs = keras.Input((6,))
    hidden = layers.Dropout(choices["dropout"])(layers.Dense(7)(inputs))
    return keras.Model(inputs, layers.Dense(2, "softmax")(hidden))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data": data(1)}, "other data"),
        ({"seed": 4}, "another seed"),
        ({"along": trajectory(constants={"dropout": 0.2}, unit="epoch")}, "another unit"),
        ({"along": trajectory(constants={"dropout": 0.4})}, "another trajectory"),
        ({"along": trajectory(constants={"dropout": 0.2}, origin="other")}, "another trajectory"),
        ({"along": trajectory(constants={"dropout": 0.2}, learning_rate=MultiStep(0.05, (1,), 0.1))}, "another trajec"),
        ({"problem": problem("Adam", eager=True)}, "another optimizer"),
        ({"problem": problem(eager=True, build=larger)}, "another model"),
    ],
)
def test_resumed_with_something_else(middle: Any, changes: dict[str, Any], says: str) -> None:
    given = {"problem": problem(eager=True), "along": ALONG, "data": data(), "seed": 3, **changes}
    with pytest.raises(InvalidInput, match=says):
        resume(given["problem"], given["along"], given["data"], middle, seed=given["seed"])
    assert resume(problem(eager=True), ALONG, data(), middle, seed=3).step == 2


def test_resumed_with_other_versions(middle: Any, monkeypatch: Any, caplog: Any) -> None:
    earlier = {**origin.versions(), "keras": "3.12.0"}
    monkeypatch.setattr(origin, "versions", lambda: earlier)
    with pytest.raises(InvalidInput, match=r"keras 3\.\d+\.\d+, here 3\.12\.0"):
        resume(problem(eager=True), ALONG, data(), middle, seed=3)
    assert resume(problem(eager=True), ALONG, data(), middle, seed=3, other_versions=True).step == 2
    assert "keras" in caplog.text


@pytest.mark.parametrize("extra", [None, [], {"step": 2}, {**dict.fromkeys(("seed", "epoch"), 0), "step": True}])
def test_snapshots_of_something_else(middle: Any, extra: Any) -> None:
    with pytest.raises(CorruptRecord, match="doesn't say where its training was"):
        resume(problem(eager=True), ALONG, data(), dataclasses.replace(middle, extra=extra), seed=3)


def test_snapshots_that_lack_a_part(middle: Any) -> None:
    for name in ("optimizer/0000", "random/0000"):
        without = {key: array for key, array in middle.attached.items() if key != name}
        with pytest.raises(InvalidInput, match=f"snapshot's {name.partition('/')[0]} state"):
            resume(problem(eager=True), ALONG, data(), dataclasses.replace(middle, attached=without), seed=3)


def test_trajectories_that_part_earlier(middle: Any) -> None:
    training = resume(problem(eager=True), ALONG, data(), middle, seed=3)
    earlier = trajectory(constants={"dropout": 0.2}, learning_rate=MultiStep(0.05, (1,), 0.1))
    with pytest.raises(InvalidInput, match="isn't the same until step 2"):
        training.follow(earlier)
    with pytest.raises(InvalidInput, match="of another model"):
        training.go_to(trajectory(constants={"dropout": 0.3}), middle)
    training.follow(trajectory(constants={"dropout": 0.2}, learning_rate=MultiStep(0.05, (2,), 0.1)))
    assert training.advance(3, always) == 3


@pytest.mark.parametrize("seed", [-1, 2**32, 1.0, True, None])
def test_seeds(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="seed"):
        begin(problem(eager=True), trajectory(), data(), seed=seed)


def test_large_seeds() -> None:
    training = begin(problem(eager=True), trajectory(), data(), seed=2**32 - 1)
    assert training.advance(1, always) == 1


def test_models_are_built_once_for_trials_that_share_them() -> None:
    built: list[Any] = []

    def building(choices: Any) -> Any:
        built.append(dict(choices))
        return build(choices)

    counted = problem(eager=True, build=building)
    for rate in (0.1, 0.2):
        for dropout in (0.1, 0.2):
            check(counted, Configuration({"learning_rate": Constant(rate)}, {"dropout": dropout}), data())
    assert built == [{"dropout": 0.1}, {"dropout": 0.2}]
    check(counted, Configuration({**RATE, "batch_size": Constant(8)}), data())
    with pytest.raises(InvalidInput, match="batch_size"):
        check(counted, Configuration({**RATE, "batch_size": Constant(0)}), data())
    assert len(built) == 3


def test_a_model_that_runs_eagerly_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    for traced in (problem(eager=False), problem(eager=True)):
        for dropout in (0.1, 0.2):
            check(traced, Configuration(RATE, {"dropout": dropout}))
    (said,) = said_by_daskevo(caplog)
    assert "runs eagerly, so nothing checks that its training can be cut exactly" in said


def test_a_problem_that_is_not_exact_is_found() -> None:
    count = iter(range(100))

    def batch(x: Any, y: Any, values: Any, generator: Any) -> Any:
        return x * values["strength"] + next(count), y

    with pytest.raises(InvalidProblem, match=r"these differ: .*optimizer/0002.*weight 0") as said:
        check_exact(
            problem(eager=True, batch=batch), trajectory(strength=Constant(1.0)), data(), until=2, cuts=[1], seed=0
        )
    assert isinstance(said.value, DaskevoError)
