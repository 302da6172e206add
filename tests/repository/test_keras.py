"""The facade with Keras models: inherit, train, put, load; what is refused; the same handle in client and task."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.errors import (
    CannotFlatten,
    InvalidInput,
    InvalidName,
    ModelExists,
    ModelNotFresh,
    ModelRetired,
    NotFinite,
    PutFailed,
    UnknownModel,
)
from daskevo.repository import Repository
from daskevo.repository.inheritance import Inheritance


@pytest.fixture
def repository(client: Any) -> Any:
    made = daskevo.open(None, f"s-{uuid.uuid4().hex[:8]}", client=client, objective="max score", shards=8)
    yield made
    for model in made.models(made.scope):
        made.retire(model.model_id)


def build(units: int = 3, hidden: int = 6) -> Any:
    import keras

    return keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(hidden, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(5),
            keras.layers.Dense(units),
        ]
    )


def train(model: Any, units: int) -> None:
    rng = np.random.default_rng(0)
    model.compile(optimizer="adam", loss="mse")
    model.fit(rng.normal(size=(16, 4)), rng.normal(size=(16, units)), verbose=0, epochs=1)


def test_a_trained_model_is_matched_by_what_it_is_not_by_what_training_made_of_it(repository: Repository) -> None:
    model = build()
    with repository.inherit(model) as child:
        train(model, 3)
        stored = child.put()
    again = build()
    train(again, 3)
    (match,) = repository.best_match(again)
    assert match is not None
    assert (match.model_id, match.score) == (stored, len(child.graph.vertices))


def test_weights_that_are_no_numbers_are_refused_where_they_must_not_be(repository: Repository) -> None:
    model = build()
    with repository.inherit(model, model_id="lost") as child:
        model.layers[1].moving_mean.assign([np.nan] * 6)
        with pytest.raises(NotFinite, match=r"1 of the model's 10 weights .* such as weight 2 of layer 'batch"):
            child.put(metrics={"score": 1.0}, finite=True)
        assert repository.status("lost").state == "unknown"
        child.put(metrics={"score": 1.0})
    assert repository.status("lost").state == "published"


def test_inherit_train_put_load(repository: Repository) -> None:
    parent = build()
    with repository.inherit(parent) as first:
        assert first.ancestor is None
        assert (first.frozen_share, len(first.prefix)) == (0.0, 0)
        assert str(first.report).startswith("nothing inherited")
        assert first.report.reason == "no match"
        train(parent, 3)
        assert first.put(metrics={"score": np.float32(0.5), "loss": float("nan")}) == first.model_id
    child = build(units=2)
    with repository.inherit(child, parent=first.model_id) as second:
        assert second.ancestor == first.model_id
        assert len(second.prefix) == 4
        assert second.report.inherited_tensors == 8
        assert len(second.report.frozen) == 3
        assert "inherited 3 of 4 layers" in str(second.report)
        assert (second.report.reason, second.report is second.report) == ("other settings", True)
        assert "units 2, the ancestor's 3" in second.report.words
        for layer, source in zip(child.layers[:3], parent.layers[:3], strict=True):
            assert not layer.trainable
            for mine, theirs in zip(layer.get_weights(), source.get_weights(), strict=True):
                np.testing.assert_array_equal(mine, theirs)
        train(child, 2)
        second.put(metrics={"score": 0.7}, step=2, labels=["best:run"])
    record = repository.record(second.model_id)
    assert (record.parent, record.ancestor, record.quality, record.step) == (first.model_id, first.model_id, 0.7, 2)
    assert record.metrics == {"score": 0.7}
    assert repository.record(first.model_id).metrics == {"score": 0.5, "loss": None}
    assert sorted(record.own) == [8, 9]
    for wish, reason in (({"ancestor": False}, "not asked"), ({"minimum_layers": 5}, "too few layers")):
        with repository.inherit(build(), **wish) as other:
            assert (other.report.reason, other.report.ancestor, other.report.matched) == (reason, None, ())
    assert [entry.steps for entry in record.owner_map.entries] == [1] * 8 + [2] * 2
    loaded = repository.load(second.model_id)
    inputs = np.random.default_rng(1).normal(size=(7, 4)).astype("float32")
    np.testing.assert_array_equal(loaded.predict(inputs, verbose=0), child.predict(inputs, verbose=0))
    assert set(second.timings) >= {"flatten_s", "match_s", "reserve_s", "load_s", "read_s", "put_s"}


def test_layers_that_were_configured_anew_after_inheriting_are_stored_as_they_are(repository: Repository) -> None:
    import keras
    from keras import layers

    def worded() -> Any:
        words = keras.Input((1,), dtype="string", name="words")
        numbers = keras.Input((1,), name="numbers")
        tokens = layers.TextVectorization(output_sequence_length=2)(words)
        buckets = layers.Discretization(num_bins=3)(numbers)
        found = layers.Flatten()(layers.Embedding(8, 2)(layers.Concatenate()([tokens, buckets])))
        return keras.Model([words, numbers], layers.Dense(2, "relu")(layers.Dense(3)(found)))

    inputs = [np.array([["b a"], ["c"]], dtype=object), np.array([[0.3], [8.0]])]
    tensors = [keras.ops.convert_to_tensor(inputs[0], "string"), keras.ops.convert_to_tensor(inputs[1])]
    with repository.inherit(worded()) as first:
        model = first.model
        for layer in model.layers:
            if isinstance(layer, layers.TextVectorization):
                layer.adapt(["a b", "c b"])
            elif isinstance(layer, layers.Discretization):
                layer.adapt(np.arange(9.0))
        model.layers[-2].activation = keras.activations.tanh
        first.put()
    loaded = repository.load(first.model_id)
    np.testing.assert_array_equal(loaded(tensors), model(tensors))

    # Nothing of what freezing sets is a part of the model.
    with repository.inherit(build()) as parent:
        parent.put()
    with repository.inherit(build(), ancestor=parent.model_id) as second:
        assert second.frozen_share > 0
        second.model.layers[-1].activation = keras.activations.tanh
        second.put()
    loaded = repository.load(second.model_id)
    assert all(layer.trainable for layer in loaded.layers)
    assert loaded.layers[-1].activation is keras.activations.tanh


@pytest.mark.long
def test_statistics_that_training_moved_are_stored_though_not_trainable(repository: Repository) -> None:
    parent = build()
    with repository.inherit(parent) as first:
        train(parent, 3)
        first.put(metrics={"score": 0.5})
    child = build()
    with repository.inherit(child, freeze="none") as second:
        assert second.frozen_share == 0
        train(child, 3)
        second.put(metrics={"score": 0.6})
    owners = {entry.owner for entry in repository.record(second.model_id).owner_map.entries}
    assert owners == {second.model_id}


@pytest.mark.parametrize(
    ("policy", "frozen"), [("prefix", 3), ("none", 0), (0.5, 1), (lambda layer: "batch" in layer.name, 1)]
)
def test_policies_of_freezing(repository: Repository, policy: Any, frozen: int) -> None:
    with repository.inherit(build()) as first:
        first.put(metrics={"score": 0.5})
    with repository.inherit(build(units=2), freeze=policy) as second:
        assert len(second.report.frozen) == frozen


def test_a_verification_can_rebuild_and_loading_initialises_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras

    with repository.inherit(build()) as child:
        child.put(metrics={"score": 1.0})
    assert repository.verify(rebuild=True).clean
    drawn: list[Any] = []
    monkeypatch.setattr(keras.initializers.GlorotUniform, "__call__", lambda *args, **how: drawn.append(args))
    loaded = repository.load(child.model_id)
    assert drawn == []
    for one, other in zip(loaded.get_weights(), child.model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_loaded_models_make_an_ensemble(repository: Repository) -> None:
    import keras

    x = keras.Input((4,))
    ids = [repository.add(keras.Sequential([x, *build().layers], name="functional")) for _ in range(3)]
    x = keras.Input((4,))
    ensemble = keras.Model(x, keras.layers.Average()([repository.load(name)(x) for name in ids]))
    assert ensemble.predict(np.ones((2, 4)), verbose=0).shape == (2, 3)


def test_a_model_that_could_not_be_loaded_is_refused_before_it_trains(repository: Repository) -> None:
    import keras

    @keras.saving.register_keras_serializable("test_keras")
    class Forgets(keras.layers.Layer):
        def __init__(self, times: int = 2, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.times = times

        def call(self, x: Any) -> Any:
            return keras.ops.repeat(x, self.times, -1)

        def get_config(self) -> dict[str, Any]:
            return super().get_config()

    model = keras.Sequential([keras.Input((4,)), Forgets(3), keras.layers.Dense(1)])
    for store in (repository.inherit, repository.add):
        with pytest.raises(CannotFlatten, match="rebuilt from its record it is not the same") as caught:
            store(model)
        assert caught.value.reason == "rebuild"


def with_statistics(mean: float, units: int = 3) -> Any:
    import keras

    norm = keras.layers.Normalization()
    norm.adapt(np.random.default_rng(0).normal(mean, 1, (32, 4)))
    return keras.Sequential([keras.Input((4,)), norm, keras.layers.Dense(5), keras.layers.Dense(units)])


def test_what_was_loaded_and_does_not_train_stays_and_ends_the_prefix(repository: Repository) -> None:
    with repository.inherit(with_statistics(0.0)) as child:
        child.put(metrics={"score": 1.0}, step=7)
    with repository.inherit(with_statistics(0.0, units=4)) as same:
        assert len(same.report.matched) == 2
    other = with_statistics(5.0, units=4)
    before = [weight.copy() for weight in other.get_weights()]
    with repository.inherit(other) as child:
        assert (child.report.reason, child.report.matched) == ("own weights", ())
        assert child.report.words.startswith("normalization")
        assert len(child.prefix) == 1
        for one, now in zip(before, other.get_weights(), strict=True):
            np.testing.assert_array_equal(one, now)
        name = child.put(metrics={"score": 1.0}, step=3)
    steps = [entry.steps for entry in repository.record(name).owner_map.entries]
    assert (steps[0], steps[3]) == (3, 3)  # mean and first kernel: its own, with its own steps
    assert repository.verify().clean


def pretrained(units: int, scale: float, trainable: bool = True) -> Any:
    model = build(units, hidden=200)
    model.layers[0].set_weights([np.full((4, 200), scale), np.zeros(200)])
    model.layers[0].trainable = trainable
    return model


def test_models_go_on_from_weights_that_began_with_the_same_ones(repository: Repository) -> None:
    with repository.inherit(build(3, hidden=200)) as drawn:
        drawn.put(metrics={"score": 1.0})
    with repository.inherit(pretrained(3, 0.5)) as loaded:
        assert (loaded.report.reason, loaded.report.matched) == ("own weights", ())
        assert "loaded into it; the ancestor's began with random ones" in loaded.report.words
        assert loaded.model.layers[0].get_weights()[0][0, 0] == 0.5
        train(loaded.model, 3)
        loaded.put(metrics={"score": 0.5})

    for model, ancestor in ((build(5, hidden=200), drawn), (pretrained(5, 0.5), loaded)):
        with repository.inherit(model) as child:
            assert (child.ancestor, len(child.report.matched)) == (ancestor.model_id, 3)
            kernels = (one.layers[0].get_weights()[0] for one in (model, ancestor.model))
            np.testing.assert_array_equal(*kernels)
    with repository.inherit(pretrained(5, 0.25)) as child:
        assert (child.report.reason, child.report.matched) == ("own weights", ())
        assert child.model.layers[0].get_weights()[0][0, 0] == 0.25
    with repository.inherit(build(5, hidden=200), ancestor=loaded.model_id) as child:
        assert child.report.reason == "own weights"
        assert "the ancestor's began with loaded ones" in child.report.words
    # Frozen ones are wanted as they were loaded, and the ancestor has trained them on.
    with repository.inherit(pretrained(5, 0.5, trainable=False)) as child:
        assert (child.report.reason, child.report.matched) == ("own weights", ())
        assert "keeps what was loaded; the ancestor's has trained on" in child.report.words
        assert child.model.layers[0].get_weights()[0][0, 0] == 0.5
    assert repository.best_match(pretrained(5, 0.5))[0].model_id == loaded.model_id
    assert repository.verify(rebuild=True).clean


def test_after_a_processs_first_models_inheriting_draws_no_initializer(
    repository: Repository, monkeypatch: Any
) -> None:
    import keras

    with repository.inherit(build(3, hidden=200)) as child:
        child.put(metrics={"score": 1.0})
    model = build(60, hidden=200)
    monkeypatch.setattr(Inheritance, "_looked_at", 1_000)

    def drawn(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a draw takes as long as all else")

    monkeypatch.setattr(keras.initializers.GlorotUniform, "__call__", drawn)
    with repository.inherit(model) as child:
        assert len(child.report.matched) == 3


def test_a_layer_that_changes_all_the_same_is_not_reported_as_frozen(repository: Repository) -> None:
    import keras

    def spectral(units: int) -> Any:
        parts = (keras.layers.Dense(5), keras.layers.SpectralNormalization(keras.layers.Dense(5), name="norm"))
        return keras.Sequential([keras.Input((4,)), *parts, keras.layers.Dense(3), keras.layers.Dense(units)])

    with repository.inherit(spectral(3)) as child:
        child.put(metrics={"score": 1.0})
    model = spectral(4)
    with repository.inherit(model) as child:
        assert (len(child.report.matched), child.report.frozen) == (3, (model.layers[0].name,))
        assert child.frozen_share == 2 / 5
        assert child.report.words.endswith("not frozen, as calling it in training changes its weights: norm")


def test_unfreezing_a_child_thaws_what_was_frozen_on_entering(repository: Repository) -> None:
    with repository.inherit(build()) as child:
        child.put(metrics={"score": 1.0})
    model = build(units=4)
    model.layers[1].trainable = False
    with repository.inherit(model) as child:
        assert [layer.trainable for layer in model.layers] == [False, False, False, True]
        child.unfreeze()
        assert [layer.trainable for layer in model.layers] == [True, False, True, True]


def test_leaving_without_a_put_gives_back(repository: Repository) -> None:
    with repository.inherit(build()) as first:
        first.put(metrics={"score": 0.5})
    before = repository.stats()
    with repository.inherit(build(), model_id="left"):
        assert repository.stats()["references"] > before["references"]
    assert repository.stats()["references"] == before["references"]
    with pytest.raises(ZeroDivisionError), repository.inherit(build()):
        raise ZeroDivisionError
    assert repository.stats()["references"] == before["references"]
    assert repository.stats()["live_attempts"] == 0
    assert repository.verify().clean


def test_a_put_that_failed_may_be_called_again(repository: Repository, client: Any) -> None:
    with repository.inherit(build()) as first:
        first.put(metrics={"score": 0.5})
    with repository.inherit(build(units=2)) as child:
        session = repository.connection.session
        client.sync(session.end, child._inherited.attempt, settled=False)
        while repository.stats()["unsettled"]:
            pass
        with pytest.raises(PutFailed, match="Put it again"):
            child.put()
        child.put()
    assert set(repository.record(child.model_id).owner_map.owners) == {first.model_id, child.model_id}
    assert repository.verify().clean


def test_an_id_that_is_taken_gives_its_record(repository: Repository) -> None:
    name = f"m-{uuid.uuid4().hex[:8]}"
    with repository.inherit(build(), model_id=name) as first:
        first.put(metrics={"score": 0.5})
    with pytest.raises(ModelExists) as caught, repository.inherit(build(), model_id=name):
        pass
    assert caught.value.record.quality == 0.5
    repository.retire(name)
    with pytest.raises(ModelExists), repository.inherit(build(), model_id=name):
        pass
    with pytest.raises(ModelRetired):
        repository.load(name)


def test_what_inherit_refuses(repository: Repository) -> None:
    import keras

    compiled = build()
    compiled.compile(loss="mse")
    with pytest.raises(ModelNotFresh):
        repository.inherit(compiled)
    with pytest.raises(CannotFlatten):
        repository.inherit(keras.Sequential([keras.layers.Dense(3)]))
    for name in ("../x", "", "x" * 10_000, "a\x00b"):
        for argument in ("model_id", "ancestor", "parent"):
            with pytest.raises(InvalidName):
                repository.inherit(build(), **{argument: name})
    with pytest.raises(InvalidInput):
        repository.inherit(build(), freeze="all")
    with pytest.raises(UnknownModel), repository.inherit(build(), ancestor="nobody"):
        pass
    with pytest.raises(InvalidInput, match="with block"):
        _ = repository.inherit(build()).ancestor


def test_what_put_refuses(repository: Repository) -> None:
    with repository.inherit(build()) as child:
        for arguments in (
            {"labels": "user:one"},
            {"labels": ["no kind"]},
            {"step": -1},
            {"step": 1.5},
            {"metrics": {"score": object()}},
            {"extra": object()},
        ):
            with pytest.raises(InvalidInput):
                child.put(**arguments)
        # None of it ended the attempt.
        child.put(metrics={"score": 0.1}, extra={"note": [1, None]})
        with pytest.raises(InvalidInput, match="stored already"):
            child.put()
    assert repository.record(child.model_id).extra == {"note": [1, None]}


def evaluate(repository: Repository, model_id: str) -> tuple[str | None, str]:
    """What an evaluation does, in a task."""
    model = build()
    with repository.inherit(model, model_id=model_id) as child:
        train(model, 3)
        child.put(metrics={"score": 0.6})
    again = daskevo.get_repository(repository.scope)
    assert again.record(model_id).quality == 0.6
    return child.ancestor, model_id


def test_in_a_task_on_a_full_worker(repository: Repository, client: Any) -> None:
    one, two = f"m-{uuid.uuid4().hex[:8]}", f"m-{uuid.uuid4().hex[:8]}"
    options = {"resources": {"evaluation": 1}, "pure": False}
    assert client.submit(evaluate, repository, one, **options).result(timeout=180) == (None, one)
    assert client.submit(evaluate, repository, two, **options).result(timeout=180) == (one, two)
    assert pickle.loads(pickle.dumps(repository)).scope == repository.scope  # noqa: S301
    assert repository.verify().clean


def test_an_asynchronous_client_gets_awaitables(client: Any) -> None:
    from distributed import Client

    async def run() -> None:
        async with Client(client.scheduler.address, asynchronous=True) as other:
            repository = await daskevo.open(None, "async", client=other, objective="max score")
            model = build()
            async with repository.inherit(model) as child:
                model_id = await child.put(metrics={"score": 0.1})
            assert (await repository.load(model_id)).count_params() == model.count_params()
            assert await repository.retire(model_id) == ()
            assert await repository.add(build(), model_id="added") == "added"
            assert (await repository.record("added")).ancestor is None

    asyncio.run(run())


def test_reading_some_layers(repository: Repository) -> None:
    model = build()
    with repository.inherit(model) as child:
        child.put()
    found = repository.read(child.model_id, layers=[1, model.layers[3].name])
    assert sorted(found) == [(1, 0), (1, 1), (4, 0), (4, 1)]
    np.testing.assert_array_equal(found[4, 1], model.layers[3].get_weights()[1])
    with pytest.raises(InvalidInput, match="no layer"):
        repository.read(child.model_id, layers=["nothing"])
    with pytest.raises(InvalidInput, match="no layer False"):
        repository.read(child.model_id, layers=[False])


def test_importing_daskevo_imports_neither_keras_nor_distributed() -> None:
    import subprocess
    import sys

    heavy = "('keras', 'tensorflow', 'distributed')"
    code = f"import sys, daskevo; daskevo.errors; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
