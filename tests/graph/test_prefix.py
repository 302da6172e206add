"""The longest common prefix: the cases of the design by hand, and random pairs against brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput
from daskevo.graph import ArchitectureGraph, Prefix, longest_common_prefix, weights
from daskevo.testing.graphs import GraphBuilder, build, recipes, related_graphs, related_recipes, renamed
from tests.graph.oracle import common_prefix, has_twins, is_common_prefix, largest_common_prefix


def _graph(make: Callable[[GraphBuilder], int]) -> ArchitectureGraph:
    builder = GraphBuilder()
    return builder.graph(make(builder))


def _merged(kind: str, order: str) -> ArchitectureGraph:
    """Two different layers on one input, flattened and merged in this order, and a head: five vertices."""

    def make(builder: GraphBuilder) -> int:
        x = builder.input(4)
        return builder.dense(builder.merge(kind, *(builder.dense(x, {"a": 8, "b": 16}[name]) for name in order)), 2)

    return _graph(make)


def _stem_merged(order: str) -> ArchitectureGraph:
    """A stem under the branches, of which only those in `order` exist."""

    def make(builder: GraphBuilder) -> int:
        stem = builder.dense(builder.input(4), 32)
        branches = {name: builder.dense(stem, {"a": 8, "b": 16}[name]) for name in sorted(set(order))}
        return builder.dense(builder.merge("Concatenate", *(branches[name] for name in order)), 2)

    return _graph(make)


def _twins_merged(builder: GraphBuilder) -> int:
    x = builder.input(4)
    return builder.dense(builder.merge("Concatenate", builder.dense(x), builder.dense(x)), 2)


def _one_layer_twice_merged(builder: GraphBuilder) -> int:
    x = builder.input(4)
    shared = builder.layer("Dense", 8, [(4, 8), (8,)])
    return builder.dense(builder.merge("Concatenate", builder.call(shared, x), builder.call(shared, x)), 2)


def _one_call_twice_merged(builder: GraphBuilder) -> int:
    a = builder.dense(builder.input(4))
    return builder.dense(builder.merge("Concatenate", a, a), 2)


def _two_inputs(builder: GraphBuilder) -> int:
    a, b = builder.dense(builder.input(4)), builder.dense(builder.input(4))
    return builder.dense(builder.merge("Concatenate", a, b), 2)


def _chain(builder: GraphBuilder) -> int:
    return builder.dense(builder.dense(builder.input(4), 8), 2)


def _chain_after_an_equal_layer_elsewhere(builder: GraphBuilder) -> int:
    x = builder.input(4)
    elsewhere = builder.dense(builder.dense(x, 64), 8)
    chain = builder.dense(builder.dense(x, 8), 2)
    return builder.merge("Concatenate", elsewhere, chain)


def _other_chain(builder: GraphBuilder) -> int:
    return builder.dense(builder.dense(builder.input(5), 8), 2)


HAND_CASES = [
    ("Add(a,b) vs Add(b,a)", _merged("Add", "ab"), _merged("Add", "ba"), 5, 5),
    ("Concat(a,b) vs Concat(b,a)", _merged("Concatenate", "ab"), _merged("Concatenate", "ba"), 5, 3),
    ("Concat(a,a) vs Concat(a,b)", _stem_merged("aa"), _stem_merged("ab"), 5, 3),
    ("Concat of twins vs of one shared layer", _graph(_twins_merged), _graph(_one_layer_twice_merged), 5, 2),
    ("Concat of twins vs of one call", _graph(_twins_merged), _graph(_one_call_twice_merged), 5, 2),
    ("two inputs vs itself", _graph(_two_inputs), _graph(_two_inputs), 6, 6),
    ("an equal layer elsewhere", _graph(_chain), _graph(_chain_after_an_equal_layer_elsewhere), 3, 3),
    ("itself", _graph(_chain), _graph(_chain), 3, 3),
    ("twins vs themselves", _graph(_twins_merged), _graph(_twins_merged), 5, 5),
    ("disjoint models", _graph(_chain), _graph(_other_chain), 3, 0),
]


@pytest.mark.parametrize(
    ("graph", "other", "size", "expected"), [case[1:] for case in HAND_CASES], ids=[case[0] for case in HAND_CASES]
)
def test_hand_cases(graph: ArchitectureGraph, other: ArchitectureGraph, size: int, expected: int) -> None:
    assert len(graph.vertices) == size
    prefix = longest_common_prefix(graph, other)
    assert len(prefix) == expected
    assert dict(prefix.vertices) == common_prefix(graph, other)
    assert largest_common_prefix(graph, other) == expected
    assert len(longest_common_prefix(other, graph)) == expected


def test_a_role_of_an_input_is_its_position() -> None:
    def make(turned: bool) -> ArchitectureGraph:
        builder = GraphBuilder()
        inputs = [builder.input(4), builder.input(4)]
        return builder.graph(builder.dense(inputs[turned]))

    assert longest_common_prefix(make(False), make(True)).vertices == ((0, 0), (1, 1))


def test_twins_in_another_flatten_order_match_less_but_never_wrongly() -> None:
    def make(twin_with_a_head: int) -> ArchitectureGraph:
        builder = GraphBuilder()
        x = builder.input(4)
        twins = [builder.dense(x), builder.dense(x)]
        return builder.graph(builder.dense(twins[twin_with_a_head], 2), twins[1 - twin_with_a_head])

    prefix = longest_common_prefix(make(0), make(1))
    assert prefix.vertices == ((0, 0), (1, 1), (2, 2))
    assert largest_common_prefix(make(0), make(1)) == 4


def test_a_shared_layer_keeps_its_calls_before_a_change() -> None:
    """However branches are flattened: the call behind the change comes first here."""

    def model(changed: str) -> ArchitectureGraph:
        builder = GraphBuilder()
        x = builder.input(4)
        layer, shared = builder.layer(changed), builder.layer("Dense shared")
        behind = builder.call(shared, builder.call(layer, x))
        after = builder.call(builder.layer("ReLU"), builder.call(shared, x))
        return builder.graph(builder.call(builder.layer("Concatenate"), behind, after))

    one, other = model("Dense a"), model("Dense b")
    prefix = longest_common_prefix(one, other)
    assert [mine for mine, _ in prefix.vertices] == [0, 3, 4]
    # The weights come with the call before the change; the layer goes on training, as it is called behind it too.
    shared = one.vertices[3].layer
    assert (shared, shared) in prefix.layers(one, other)
    assert shared not in prefix.freezable(one)


@given(related_graphs())
@settings(max_examples=150)
def test_equals_the_oracle(pair: list[ArchitectureGraph]) -> None:
    graph, other = pair
    pairs = dict(longest_common_prefix(graph, other).vertices)
    assert pairs == common_prefix(graph, other)
    assert is_common_prefix(graph, other, pairs)


@given(related_graphs(max_vertices=6))
@settings(max_examples=100)
def test_is_the_largest_unless_there_are_twins_and_never_larger(pair: list[ArchitectureGraph]) -> None:
    graph, other = pair
    found, largest = len(longest_common_prefix(graph, other)), largest_common_prefix(graph, other)
    assert found <= largest
    if not has_twins(graph) and not has_twins(other):
        assert found == largest


@given(recipes(), st.data())
@settings(max_examples=60)
def test_what_extends_a_model_shares_all_of_it(recipe: list, data: st.DataObject) -> None:
    short, extended = build(recipe[: data.draw(st.integers(1, len(recipe)))]), build(recipe)
    # A layer that is called again with fewer vertices upstream brings its weights there.
    assume(all(calls[0] == extended.calls[layer][0] for layer, calls in enumerate(short.calls)))
    prefix = longest_common_prefix(short, renamed(extended))
    assert prefix.vertices == tuple((index, index) for index in range(len(short.vertices)))


@given(related_graphs())
@settings(max_examples=60)
def test_is_the_intersection_of_ids_from_either_side(pair: list[ArchitectureGraph]) -> None:
    graph, other = pair
    prefix = longest_common_prefix(graph, other)
    assert {graph.ids[mine] for mine, _ in prefix.vertices} == set(graph.ids) & set(other.ids)
    assert sorted(longest_common_prefix(other, graph).vertices) == sorted((b, a) for a, b in prefix.vertices)


@given(related_graphs(), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_forged_ids_never_pair_vertices_that_differ(pair: list[ArchitectureGraph], random) -> None:
    graph, other = pair
    # As if the hash had few values: any two vertices may collide.
    for forged in (graph, other):
        forged.__dict__["ids"] = tuple(bytes([random.randrange(4)]) * 16 for _ in forged.vertices)
    assert is_common_prefix(graph, other, dict(longest_common_prefix(graph, other).vertices))


@pytest.mark.parametrize(
    "change",
    [
        "signature",
        "tensors",
        "source",
        "slot",
        "argument",
        "commutative",
        "commutative of one edge",
        "input position",
        "second call",
    ],
)
def test_the_cone_check_sees_each_difference_behind_equal_ids(change: str) -> None:
    builder = GraphBuilder()
    x, y = builder.input(4), builder.input(5)
    dense = builder.layer("Dense", 8, [(4, 8), (8,)])
    first = builder.call(dense, x)
    again = builder.call(dense, first)
    last = builder.dense(builder.merge("Concatenate", again, y), 2)
    graph = builder.graph(last)
    vertices = list(graph.vertices)
    layers = list(graph.layers)
    inputs = graph.inputs
    merge = vertices[again + 1]
    lost = {again + 1, last}
    if change == "signature":
        vertices[again + 1] = replace(merge, signature="another")
    elif change == "commutative":
        vertices[again + 1] = replace(merge, commutative=True)
    elif change == "commutative of one edge":
        vertices[last] = replace(vertices[last], commutative=True)
        lost = {last}
    elif change in ("source", "slot", "argument"):
        value = {"source": first, "slot": 1, "argument": "inputs/7"}[change]
        vertices[again + 1] = replace(merge, edges=(replace(merge.edges[0], **{change: value}), merge.edges[1]))
    elif change == "tensors":
        number = vertices[first].layer
        layers[number] = replace(layers[number], tensors=layers[number].tensors[:1])
        lost = {first, again, again + 1, last}
    elif change == "input position":
        inputs = inputs[::-1]
        lost = set(range(len(vertices)))
    else:
        layers.insert(3, layers[2])
        vertices[again] = replace(vertices[again], layer=3)
        vertices[again + 1 :] = [replace(vertex, layer=vertex.layer + 1) for vertex in vertices[again + 1 :]]
        lost = {again, again + 1, last}
    other = replace(graph, vertices=tuple(vertices), layers=tuple(layers), inputs=inputs)
    assert set(graph.ids) & set(other.ids) == {graph.ids[index] for index in range(len(vertices)) if index not in lost}
    other.__dict__["ids"] = graph.ids
    kept = tuple((index, index) for index in range(len(vertices)) if index not in lost)
    assert longest_common_prefix(graph, other).vertices == kept
    assert longest_common_prefix(other, graph).vertices == kept


def test_twins_of_one_id_do_not_share_a_partner() -> None:
    twins = _graph(_twins_merged)
    twins.__dict__["ids"] = (*twins.ids[:2], twins.ids[1], *twins.ids[3:])
    assert longest_common_prefix(twins, _graph(_chain)).vertices == ((0, 0), (1, 1))


def test_a_later_call_is_told_apart_by_whose_weights_it_uses() -> None:
    def make(which: int) -> ArchitectureGraph:
        builder = GraphBuilder()
        x = builder.input(4)
        layers = [builder.layer("Dense", 8, [(4, 8), (8,)]) for _ in range(2)]
        low = builder.call(layers[0], x)
        high = builder.call(layers[1], low)
        return builder.graph(builder.call(layers[which], high))

    first, second = make(0), make(1)
    assert set(first.ids) & set(second.ids) == set(first.ids[:3])


def test_weights_travel_with_the_first_call_and_freezing_needs_all_calls() -> None:
    builder = GraphBuilder()
    x = builder.input(4)
    dense = builder.layer("Dense", 8, [(4, 8), (8,)])
    builder.call(dense, x)
    head = builder.dense(1, 2)
    other = builder.graph(head)

    builder = GraphBuilder()
    stem = builder.dense(builder.input(4), 8)
    graph = builder.graph(builder.call(1, builder.dense(stem, 16)), builder.dense(stem, 2))
    prefix = longest_common_prefix(graph, other)
    assert prefix.vertices == ((0, 0), (1, 1), (4, 2))
    assert prefix.layers(graph, other) == ((0, 0), (1, 1), (3, 2))
    # Tensors 2 and 3 are those of the layer of 16 units, which is no part of the prefix.
    assert prefix.tensors(graph, other) == ((0, 0), (1, 1), (4, 2), (5, 3))
    assert prefix.freezable(graph) == (0, 3)


@given(related_graphs())
@settings(max_examples=60)
def test_inherited_tensors_are_of_equal_shape_and_go_to_one_place_each(pair: list[ArchitectureGraph]) -> None:
    graph, other = pair
    prefix = longest_common_prefix(graph, other)
    pairs = prefix.tensors(graph, other)
    assert len({mine for mine, _ in pairs}) == len({theirs for _, theirs in pairs}) == len(pairs)
    for mine, theirs in pairs:
        assert graph.tensors[mine].spec == other.tensors[theirs].spec
        assert graph.tensors[mine].index == other.tensors[theirs].index
    inherited = {graph.tensors[mine].layer for mine, _ in pairs}
    with_tensors = {layer for layer in prefix.freezable(graph) if graph.layers[layer].tensors}
    assert with_tensors <= inherited


def test_weights_by_vertex_and_by_bytes() -> None:
    builder = GraphBuilder()
    x = builder.input(4)
    dense = builder.layer("Dense", 8, [(4, 8), (8,)])
    graph = builder.graph(builder.call(dense, builder.call(dense, x)))
    assert weights(graph) == [1, 1, 1]
    assert weights(graph, "bytes") == [1, (4 * 8 + 8) * 4 * 4 + 1, 1]
    with pytest.raises(InvalidInput, match="use 'vertex' or 'bytes'"):
        weights(graph, "layers")  # type: ignore[arg-type]


@given(related_recipes(models=3))
@settings(max_examples=40)
def test_bytes_come_before_vertices(family: list) -> None:
    graph, *others = map(build, family)
    values = weights(graph, "bytes")

    def score(prefix: Prefix) -> int:
        return sum(values[mine] for mine, _ in prefix.vertices)

    def key(other: ArchitectureGraph, prefix: Prefix) -> tuple[int, int]:
        return sum(graph.tensors[mine].spec.nbytes for mine, _ in prefix.tensors(graph, other)), len(prefix)

    (first, second) = ((other, longest_common_prefix(graph, other)) for other in others)
    assume(key(*first) != key(*second))
    assert (score(first[1]) > score(second[1])) == (key(*first) > key(*second))
