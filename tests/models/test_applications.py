"""Every model of keras.applications flattens; a few of them are rebuilt too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from daskevo.graph import ArchitectureGraph, longest_common_prefix
from daskevo.models import flatten, rebuild, shape_only
from tests.cases import with_long


def applications() -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(keras.applications).items()
        if callable(value) and name[0].isupper() and not isinstance(value, type)
    }


# One of each family, small; the whole zoo is long.
FEW = ["MobileNetV2", "EfficientNetB0", "ConvNeXtTiny"]


def check(build: Callable[..., Any]) -> ArchitectureGraph:
    model = build(weights=None)
    graph = flatten(model).graph
    assert len(graph.vertices) >= 20
    assert len(set(graph.ids)) == len(graph.ids)
    assert graph.parameters == model.count_params()
    return graph


@pytest.mark.parametrize("name", with_long(FEW, "ConvNeXtTiny", "EfficientNetB0"))
def test_a_few_flatten_and_are_rebuilt(name: str) -> None:
    with shape_only():
        graph = check(applications()[name])
        again = rebuild(graph)  # compares the ids
    assert len(again.operations) == len(graph.layers)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(applications()) - set(FEW)))
def test_all_flatten(name: str) -> None:
    with shape_only():
        check(applications()[name])


@pytest.mark.long
def test_resnets_share_what_they_should() -> None:
    with shape_only():
        graphs = [
            flatten(build(weights=None, classes=classes)).graph
            for build, classes in (
                (keras.applications.ResNet50, 1000),
                (keras.applications.ResNet101, 1000),
                (keras.applications.ResNet50, 10),
            )
        ]
    fifty, hundred, ten = graphs
    assert len(fifty.vertices) == 177
    assert len(longest_common_prefix(fifty, hundred)) == 143
    assert len(longest_common_prefix(fifty, ten)) == 176
