"""What is attached to a model's architecture graph comes back; the model's tensors keep their numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph import ArchitectureGraph, LayerRecord, longest_common_prefix
from daskevo.graph.attached import attach, detach, in_order, is_snapshot
from daskevo.testing.graphs import GraphBuilder, architecture_graphs
from daskevo.types import TensorSpec

SPECS = st.dictionaries(
    st.text("ab/0!", min_size=1, max_size=4),
    st.sampled_from([TensorSpec((), "int64"), TensorSpec((2, 3), "float32"), TensorSpec((0,), "bfloat16")]),
    max_size=6,
)


def dense() -> ArchitectureGraph:
    builder = GraphBuilder()
    x = builder.input(4)
    return builder.graph(builder.call(builder.layer("Dense", 8, tensors=[(4, 8), (8,)]), x))


@given(st.none() | architecture_graphs(), SPECS)
def test_a_graph_and_what_was_attached_come_back(graph: ArchitectureGraph | None, specs: dict[str, TensorSpec]) -> None:
    whole = ArchitectureGraph.from_json(attach(graph, specs).to_json())
    assert is_snapshot(whole)
    found, names = detach(whole)
    assert found == graph
    assert list(names) == in_order(specs)
    own = () if graph is None else graph.tensors
    assert whole.tensors[: len(own)] == own
    assert {name: key.spec for name, key in zip(names, whole.tensors[len(own) :], strict=True)} == specs


@given(architecture_graphs(), SPECS)
def test_a_model_shares_all_with_its_own_snapshot(graph: ArchitectureGraph, specs: dict[str, TensorSpec]) -> None:
    assert not is_snapshot(graph)
    assert len(longest_common_prefix(graph, attach(graph, specs))) == len(graph.vertices)


def test_the_order_of_names_does_not_matter() -> None:
    a, b = TensorSpec((1,), "int8"), TensorSpec((2,), "int8")
    assert attach(None, {"x/1": a, "y": b, "x/0": b}) == attach(None, {"x/0": b, "x/1": a, "y": b})


def _changed(whole: ArchitectureGraph, layer: int, **changes: Any) -> ArchitectureGraph:
    layers = list(whole.layers)
    layers[layer] = replace(layers[layer], **changes)
    return replace(whole, layers=tuple(layers))


WHOLE = attach(dense(), {"a": TensorSpec((1,), "int8"), "b/0": TensorSpec((1,), "int8"), "b/1": TensorSpec((), "int8")})


@pytest.mark.parametrize(
    "graph",
    [
        dense(),
        _changed(WHOLE, -1, config=None),
        _changed(WHOLE, -1, config={"class_name": "Snapshot", "groups": 99}),
        _changed(WHOLE, -1, config={"class_name": "Snapshot", "groups": "2"}),
        _changed(WHOLE, -1, config={"class_name": "Snapshot", "groups": -1}),
        _changed(WHOLE, -1, config={"class_name": "Snapshot", "groups": 4}),
        _changed(WHOLE, -1, config={"class_name": "Snapshot", "groups": 2, "more": 1}),
        _changed(WHOLE, -2, config={"class_name": "Attached", "names": ["b/0"]}),
        _changed(WHOLE, -2, config={"class_name": "Attached", "names": ["b/0", "b/0"]}),
        _changed(WHOLE, -2, config={"class_name": "Attached", "names": ["b/0", 1]}),
        _changed(WHOLE, -2, config={"class_name": "Attached", "names": ["b/0", "a"]}),
        _changed(WHOLE, -2, config={"class_name": "Attached", "names": "ab"}),
        _changed(WHOLE, -2, config=[]),
    ],
)
def test_other_graphs_are_not_taken_apart(graph: ArchitectureGraph) -> None:
    with pytest.raises(CorruptRecord):
        detach(graph)


def test_names_that_can_not_be_are_refused() -> None:
    with pytest.raises(InvalidInput):
        attach(None, {"x" * 2000: TensorSpec((), "int8")})


def test_a_marker_in_the_middle_of_a_model_is_none() -> None:
    middle = attach(None, {}).vertices[0]
    builder = dense()
    graph = replace(
        builder,
        layers=(LayerRecord("snapshot", None), *builder.layers),
        vertices=(
            middle,
            *(
                replace(v, layer=v.layer + 1, edges=tuple(replace(e, source=e.source + 1) for e in v.edges))
                for v in builder.vertices
            ),
        ),
        inputs=tuple(i + 1 for i in builder.inputs),
        outputs=tuple((v + 1, s) for v, s in builder.outputs),
    )
    assert not is_snapshot(graph)
