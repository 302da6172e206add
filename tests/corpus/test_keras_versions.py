"""Models that the oldest and the newest supported Keras stored: the running one loads them, and matches them."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import daskevo
from daskevo.errors import CannotRebuild
from daskevo.graph import ArchitectureGraph
from daskevo.models import flatten, rebuild
from daskevo.models.versions import written_by
from tests.corpus.make_keras import MODELS, inputs_of

GOLDEN = Path(__file__).parent / "golden"
ROOTS = sorted(GOLDEN.glob("keras-*/root"))
pytestmark = pytest.mark.filterwarnings("ignore:Layer '.*' .*was passed an input with a mask:UserWarning")


@pytest.fixture(params=ROOTS, ids=[root.parent.name for root in ROOTS])
def repository(request: Any, tmp_path: Path) -> Any:
    shutil.copytree(request.param, tmp_path / "root")
    return daskevo.open(tmp_path / "root")


def test_all_are_loaded_and_predict_what_they_did(repository: Any) -> None:
    assert [model.model_id for model in repository.models()] == list(MODELS)
    assert repository.verify(rebuild=True).clean
    for name in MODELS:
        model = repository.load(name)
        given = inputs_of(model)
        found = keras.tree.flatten(model(given if len(given) > 1 else given[0], training=False))
        for one, expected in zip(found, repository.record(name).extra["outputs"], strict=True):
            np.testing.assert_allclose(np.asarray(one), expected, rtol=1e-4, atol=1e-5)


def test_all_are_matched_by_models_of_the_running_keras(repository: Any) -> None:
    for name, build in MODELS.items():
        graph = flatten(build()).graph
        assert graph.ids == repository.record(name).architecture.ids


def test_the_corpus_is_of_the_declared_range() -> None:
    versions = sorted(tuple(map(int, root.parent.name.removeprefix("keras-").split("."))) for root in ROOTS)
    (low, *_, high) = versions
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    (keras_range,) = [
        one for one in declared["project"]["optional-dependencies"]["tensorflow"] if one.startswith("keras")
    ]
    assert keras_range == f"keras>={low[0]}.{low[1]},<{high[0]}.{high[1] + 1}"
    conda = (Path(__file__).parents[2] / "environment.yml").read_text()
    assert f'"{keras_range}"' in conda
    for root in ROOTS:
        graph = daskevo.open(root).record("words").architecture
        assert f"keras-{written_by(graph)}" == root.parent.name


def with_signature(graph: ArchitectureGraph, vertex: int, **arguments: Any) -> ArchitectureGraph:
    value: Any = json.loads(graph.text)
    place = value["vertices"][vertex][1]
    signature = json.loads(value["signatures"][place])
    signature["layer"]["config"] |= arguments
    value["signatures"][place] = json.dumps(signature, sort_keys=True, separators=(",", ":"))
    return ArchitectureGraph.from_json(value)


def normalised() -> ArchitectureGraph:
    x = keras.Input((4,))
    return flatten(keras.Model(x, keras.layers.BatchNormalization()(x))).graph


def test_models_of_earlier_versions_of_daskevo_are_matched() -> None:
    graph = normalised()
    assert with_signature(graph, 1, renorm=False, renorm_momentum=0.99).ids == graph.ids
    assert with_signature(graph, 1, renorm=True).ids != graph.ids


def test_what_only_one_version_knows_of_is_read_and_what_both_know_must_be_the_same() -> None:
    graph = normalised()
    assert rebuild(with_signature(graph, 1, of_a_later_version=7)).count_params() == 16
    with pytest.raises(CannotRebuild, match="differs at layer 'batch_normalization"):
        rebuild(with_signature(graph, 1, epsilon=0.5))


def test_an_argument_that_the_running_keras_does_not_know_is_named() -> None:
    graph = normalised()
    config: Any = json.loads(json.dumps(graph.layers[1].config))
    config["config"]["of_a_later_version"] = 7
    record = dataclasses.replace(graph.layers[1], config=config)
    with pytest.raises(CannotRebuild, match=r"layer 'batch_normalization.*of_a_later_version"):
        rebuild(dataclasses.replace(graph, layers=(graph.layers[0], record)))
