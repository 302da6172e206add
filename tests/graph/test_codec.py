"""Architecture graphs as JSON: they come back equal, and nothing else is let in."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import (
    ArchitectureGraph,
    Edge,
    LayerRecord,
    Vertex,
    architecture,
    longest_common_prefix,
    validation,
)
from daskevo.testing.graphs import GraphBuilder, architecture_graphs
from daskevo.types import TensorSpec

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.sampled_from([-1, 2**31, 2**63, 2**64, "float32", "\ud800"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(architecture_graphs())
@settings(max_examples=60)
def test_comes_back_equal(graph: ArchitectureGraph) -> None:
    text = json.dumps(graph.to_json(), allow_nan=False)
    again = ArchitectureGraph.from_json(json.loads(text))
    assert again == graph
    assert again.ids == graph.ids
    assert json.dumps(again.to_json()) == text


def test_what_was_loaded_comes_back_and_is_part_of_all_ids_behind_it() -> None:
    builder = GraphBuilder()
    graph = builder.graph(builder.dense(builder.dense(builder.input(4))))
    loaded = graph.started({1: "ab"})
    again = ArchitectureGraph.from_json(json.loads(loaded.text))
    assert (again, again.ids, again.starts) == (loaded, loaded.ids, {1: "ab"})
    assert [one == other for one, other in zip(graph.ids, loaded.ids, strict=True)] == [True, False, False]
    assert len({graph.ids[1], loaded.ids[1], graph.started({1: "cd"}).ids[1]}) == 3
    assert loaded.started({}) == graph
    assert ArchitectureGraph.from_json(json.loads(graph.text)).text == graph.text
    assert len(longest_common_prefix(loaded, graph)) == 1


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [(value, key) for key, _ in items] + [place for _, inner in items for place in _places(inner)]


@given(architecture_graphs(max_vertices=6), st.data())
@settings(max_examples=300)
def test_hostile_records_are_refused_or_are_graphs(graph: ArchitectureGraph, data: st.DataObject) -> None:
    record = copy.deepcopy(graph.to_json())
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_places(record)))
        change = data.draw(st.sampled_from(("set", "drop", "double")))
        if change == "set":
            container[key] = data.draw(ANYTHING)
        elif change == "drop":
            del container[key]
        elif isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        if not _places(record):
            break
    try:
        found = ArchitectureGraph.from_json(record)
    except CorruptRecord:
        return
    # What is let in is a whole graph: everything that others ask of it works, and it can be stored again.
    assert len(set(found.ids)) == len(found.vertices)
    assert found.nbytes >= 0
    assert found.parameters >= 0
    assert ArchitectureGraph.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))).ids == found.ids


@pytest.mark.parametrize("value", [None, 0, "", [], {}, {"format": "daskevo architecture graph 1"}])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(CorruptRecord, match="the record is malformed"):
        ArchitectureGraph.from_json(value)


def test_another_format_is_named() -> None:
    record = {**_small().to_json(), "format": "daskevo architecture graph 2"}
    with pytest.raises(CorruptRecord, match="reads 'daskevo architecture graph 1'"):
        ArchitectureGraph.from_json(record)


def test_signatures_stand_once() -> None:
    builder = GraphBuilder()
    x = builder.input(4)
    for _ in range(50):
        x = builder.call(builder.layer("Activation", "r" * 1000), x)
    graph = builder.graph(x)
    assert len(graph.to_json()["signatures"]) == 2
    assert ArchitectureGraph.from_json(graph.to_json()) == graph


def _small() -> ArchitectureGraph:
    builder = GraphBuilder()
    return builder.graph(builder.dense(builder.input(4)))


def _parts(**changes: Any) -> dict[str, Any]:
    graph = _small()
    parts = {name: getattr(graph, name) for name in ("layers", "vertices", "inputs", "outputs", "structure")}
    return {**parts, **changes}


_X, _DENSE = _small().vertices
_LAYER_X, _LAYER_DENSE = _small().layers


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vertices": ()}, "0 vertices"),
        ({"vertices": [_X, _DENSE]}, "vertices is of type list"),
        ({"vertices": (_X, Vertex(1, "d", (Edge(1, 0, "inputs"),)))}, "source of an edge of vertex 1 is 1"),
        ({"vertices": (_X, Vertex(1, "d", (Edge(-1, 0, "inputs"),)))}, "source of an edge of vertex 1 is -1"),
        ({"vertices": (_X, Vertex(1, "d", (Edge(False, 0, "inputs"),)))}, "source of an edge of vertex 1 is False"),
        ({"vertices": (_X, Vertex(1, "d", (Edge(0, 10_000, "inputs"),)))}, "slot of an edge of vertex 1"),
        ({"vertices": (_X, Vertex(1, "d", (Edge(0, 0, "x" * 201),)))}, "201 characters"),
        ({"vertices": (_X, Vertex(1, "d\ud800"))}, "lone surrogate"),
        ({"vertices": (_X, Vertex(1, "d", call=(1,)))}, "type tuple"),
        ({"vertices": (_X, Vertex(2, "d"))}, "vertex 1.layer is 2"),
        ({"vertices": (Vertex(1, "d"), Vertex(0, "x"))}, "vertex 0.layer is 1"),
        ({"vertices": (_X, Vertex(0, "x"))}, "layer 1 of 2 is never called"),
        ({"layers": (_LAYER_X, LayerRecord("n" * 1001, {}))}, "1001 characters"),
        ({"layers": (_LAYER_X, LayerRecord("dense", {}, (), "0" * 101))}, "101 characters"),
        ({"layers": (_LAYER_X, LayerRecord("dense", {"rate": float("nan")}))}, "holds nan"),
        ({"layers": (_LAYER_X, LayerRecord("dense", {"units": np.int64(8)}))}, "type int64"),
        ({"layers": (_LAYER_X, LayerRecord("dense", {}, (TensorSpec((np.int64(2),), "float32"),)))}, "can't be stored"),
        ({"layers": (_LAYER_X, LayerRecord("dense", {}, (TensorSpec((2,), "object"),)))}, "can't be stored"),
        (
            {"layers": (_LAYER_X, LayerRecord("dense", {}, (TensorSpec((2**59,), "float32"),) * 2))},
            "4611686018427387904 bytes",
        ),
        ({"inputs": (1,)}, "input 0 is vertex 1, which other vertices flow into"),
        ({"inputs": (0, 0)}, "two of its inputs are the same"),
        ({"inputs": (2,)}, "input 0 is 2"),
        ({"outputs": ()}, "0 outputs"),
        ({"outputs": ((2, 0),)}, "vertex of output 0 is 2"),
        ({"outputs": ([1, 0],)}, "output 0 is no pair"),
        ({"structure": {1: "a"}}, "the key 1"),
    ],
)
def test_parts_that_make_no_graph_are_named(changes: dict[str, Any], message: str) -> None:
    ArchitectureGraph(**_parts())
    with pytest.raises(InvalidInput, match=message):
        ArchitectureGraph(**_parts(**changes))


def test_size_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = GraphBuilder()
    x = builder.input(4)
    record = builder.graph(builder.merge("Add", *[builder.dense(x) for _ in range(5)])).to_json()
    ArchitectureGraph.from_json(record)
    for limit, most in (("VERTICES", 6), ("EDGES", 9), ("TENSORS", 9), ("SIGNATURE_CHARACTERS", 20)):
        with monkeypatch.context() as patch:
            patch.setattr(validation, f"MAX_{limit}", most)
            with pytest.raises(CorruptRecord, match=str(most)):
                ArchitectureGraph.from_json(record)


def test_tensor_numbers_follow_layers_in_order_of_first_call() -> None:
    builder = GraphBuilder()
    late = builder.layer("Dense", 2, [(8, 2), (2,)])
    early = builder.layer("Dense", 8, [(4, 8), (8,)])
    graph = builder.graph(builder.call(late, builder.call(early, builder.input(4))))
    assert [key.spec.shape for key in graph.tensors] == [(4, 8), (8,), (8, 2), (2,)]
    assert [(key.layer, key.index) for key in graph.tensors] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert [list(graph.tensor_numbers(layer)) for layer in range(3)] == [[], [0, 1], [2, 3]]
    assert graph.parameters == 58
    assert graph.nbytes == 232


def test_the_last_graphs_are_kept_and_no_more() -> None:
    def chain(width: int) -> ArchitectureGraph:
        builder = GraphBuilder()
        return builder.graph(builder.dense(builder.input(4), width))

    architecture._last.clear()
    graphs = [chain(number + 1) for number in range(architecture._KEPT + 1)]
    texts = [graph.text for graph in graphs]
    assert len(architecture._last) == architecture._KEPT
    assert ArchitectureGraph.of_text(texts[-1]) is graphs[-1]
    again = ArchitectureGraph.of_text(texts[0])
    assert again is not graphs[0]
    assert again == graphs[0]
