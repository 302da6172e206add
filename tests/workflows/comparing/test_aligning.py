"""Layers that stand in each other's place: a longest common subsequence, and what one layer more or less does."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.graph import ArchitectureGraph
from daskevo.testing.graphs import GraphBuilder, architecture_graphs, related_graphs, renamed
from daskevo_workflows.comparing import alignment
from daskevo_workflows.comparing.alignment import Trait, in_order, matched
from daskevo_workflows.comparing.difference import LayerPair, difference
from tests.cluster.helpers import chain
from tests.workflows.exporting.records import record

TRAITS = st.lists(st.builds(Trait, st.sampled_from("ab"), st.sampled_from("12")), max_size=7)


def layers(first: ArchitectureGraph, second: ArchitectureGraph) -> tuple[LayerPair, ...]:
    return difference(record("a", first), first, record("b", second), second).layers


def different(pairs: tuple[LayerPair, ...]) -> list[tuple[str | None, str | None]]:
    return [(pair.first, pair.second) for pair in pairs if pair.settings or not pair.first or not pair.second]


@given(TRAITS, TRAITS)
@settings(max_examples=150)
def test_as_many_as_can_be_are_equal_and_then_of_one_kind(first: list[Trait], second: list[Trait]) -> None:
    @lru_cache(None)
    def most(mine: int, theirs: int) -> tuple[int, int]:
        if mine == len(first) or theirs == len(second):
            return 0, 0
        found = [most(mine + 1, theirs), most(mine, theirs + 1)]
        one, other = first[mine], second[theirs]
        if one.kind == other.kind:
            equal, alike = most(mine + 1, theirs + 1)
            found.append((equal + (one == other), alike + 1))
        return max(found)

    pairs = matched(first, second)
    assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(pairs))
    assert all(first[mine].kind == second[theirs].kind for mine, theirs in pairs)
    assert (sum(first[mine] == second[theirs] for mine, theirs in pairs), len(pairs)) == most(0, 0)
    order = in_order(len(first), len(second), dict(pairs))
    assert [mine for mine, _ in order if mine is not None] == list(range(len(first)))
    assert [theirs for _, theirs in order if theirs is not None] == list(range(len(second)))


def test_of_very_long_sequences_blocks_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_CELLS", 3)
    one, other, more = (Trait(kind, kind) for kind in "abc")
    assert matched([one, other, one], [more, one, other]) == [(0, 1), (1, 2)]
    assert matched([one, other], [Trait("a", "x"), Trait("b", "y")]) == [(0, 0), (1, 1)]


@given(architecture_graphs())
@settings(max_examples=40)
def test_identical_models_have_no_difference(graph: ArchitectureGraph) -> None:
    assert different(layers(graph, renamed(graph))) == []


@given(related_graphs())
@settings(max_examples=40)
def test_backwards_it_is_the_same_layers(graphs: list[ArchitectureGraph]) -> None:
    first, second = graphs
    for one, other in ((first, second), (second, first)):
        pairs = layers(one, other)
        assert [pair.first for pair in pairs if pair.first] == [layer.name for layer in one.layers]
        assert sorted(pair.second for pair in pairs if pair.second) == sorted(layer.name for layer in other.layers)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=7), st.integers(0, 7), st.integers(1, 5))
@settings(max_examples=60)
def test_one_layer_more_is_one_difference(units: list[int], place: int, width: int) -> None:
    inserted = [*units[: place % len(units)], width, *units[place % len(units) :]]
    more = layers(chain(*units), chain(*inserted))
    assert [pair.relation for pair in more].count("only in B") == len(different(more)) == 1
    less = layers(chain(*inserted), chain(*units))
    assert [pair.relation for pair in less].count("only in A") == len(different(less)) == 1


def test_outputs_stand_beside_each_other_whatever_lies_between() -> None:
    def model(*units: int, classes: int) -> ArchitectureGraph:
        builder = GraphBuilder()
        vertex = builder.input(4)
        for width in units:
            vertex = builder.call(builder.layer("Dropout", {"rate": width}), builder.dense(vertex, width))
        graph = builder.graph(builder.dense(vertex, classes))
        kinds = [{"class_name": layer.name.partition("_")[0]} for layer in graph.layers]
        named = [replace(layer, config=kind) for layer, kind in zip(graph.layers, kinds, strict=True)]
        return ArchitectureGraph(tuple(named), graph.vertices, graph.inputs, graph.outputs)

    pairs = layers(model(8, 16, classes=2), model(32, classes=3))
    assert [(pair.kind, pair.first, pair.second) for pair in pairs] == [
        ("InputLayer", "InputLayer_0", "InputLayer_0"),
        ("Dense", "Dense_1", "Dense_1"),
        ("Dropout", "Dropout_2", "Dropout_2"),
        ("Dense", "Dense_3", None),
        ("Dropout", "Dropout_4", None),
        ("Dense", "Dense_5", "Dense_3"),
    ]
    assert [bool(pair.settings) for pair in pairs] == [False, True, True, False, False, True]
