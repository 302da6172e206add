"""Where mutators apply: by type, name, test, chain and region."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo.space import Chain, Match, ModelGraph, Region, layer, named, of_kind, where


def graph() -> ModelGraph:
    """in -> conv1 -> relu1 -> conv2 -> relu2 -> (pool, add) ; pool -> add -> out"""
    made = ModelGraph("g")
    place = made.add_input("in", layer("InputLayer", batch_shape=(None, 8, 8, 3)))
    for number in (1, 2):
        place = made.create(f"conv{number}", layer("Conv2D", filters=4 * number), [place])
        place = made.create(f"relu{number}", layer("ReLU"), [place])
    made.create("pool", layer("MaxPooling2D"), [place])
    made.create("add", layer("Add"), [place, "pool"])
    made.create("out", layer("Dense", units=2), ["add"])
    made.outputs = ("out",)
    return made


def found(pattern: Any) -> list[tuple[str, ...]]:
    return [match.nodes for match in pattern.find(graph())]


def test_by_type_name_and_test() -> None:
    assert found(of_kind("Conv2D")) == [("conv1",), ("conv2",)]
    assert found(of_kind("Dense", "Add")) == [("add",), ("out",)]
    assert found(named("conv?", "po*")) == [("conv1",), ("conv2",), ("pool",)]
    assert found(where(lambda node: node.config.get("filters") == 8)) == [("conv2",)]
    assert found(of_kind("Conv2D") & ~named("*1")) == [("conv2",)]
    assert found(named("out") | named("conv1")) == [("conv1",), ("out",)]
    assert found(named("in")) == [], "an input of the model is no place for a mutation"
    assert found(of_kind("LSTM")) == []


def test_chains_follow_edges_without_branches() -> None:
    convolution, relu = of_kind("Conv2D"), of_kind("ReLU")
    assert found(Chain(convolution, relu)) == [("conv1", "relu1"), ("conv2", "relu2")]
    assert found(Chain(convolution, relu, convolution)) == [("conv1", "relu1", "conv2")]
    # relu2 leads to two nodes, and add has two inputs.
    assert found(Chain(relu, of_kind("MaxPooling2D"))) == []
    assert found(Chain(of_kind("MaxPooling2D"), of_kind("Add"))) == []
    # No node stands in two matches.
    anything = where(lambda node: True)
    assert found(Chain(anything, anything)) == [("conv1", "relu1"), ("conv2", "relu2"), ("add", "out")]
    ends = graph()
    ends.outputs = ("out", "conv1")
    assert [match.nodes for match in Chain(convolution, relu).find(ends)] == [("conv2", "relu2")]


def test_a_region_is_one_match() -> None:
    assert found(Region("conv*", "relu*")) == [("conv1", "relu1", "conv2", "relu2")]
    assert found(Region("nothing*")) == []
    assert str(Match(("a", "b"))) == "a"


def test_patterns_are_told_apart() -> None:
    texts = [
        of_kind("Dense").to_json(),
        named("Dense").to_json(),
        (~of_kind("Dense")).to_json(),
        (of_kind("Dense") & named("a")).to_json(),
        (of_kind("Dense") | named("a")).to_json(),
        where(lambda node: node.kind == "Dense").to_json(),
        Chain(of_kind("Dense"), named("a")).to_json(),
        Region("Dense").to_json(),
    ]
    assert len({str(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    "make",
    [
        lambda: of_kind(),
        lambda: named(3),
        lambda: named(""),
        lambda: where("Dense"),
        lambda: Chain(of_kind("Dense")),
        lambda: Chain(of_kind("Dense"), "ReLU"),
    ],
)
def test_what_makes_no_pattern_is_refused(make: Any) -> None:
    with pytest.raises(InvalidInput):
        make()
