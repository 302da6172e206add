"""Ids of vertices: unique in a graph, the same everywhere, blind to names, and what they tell apart."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings

from daskevo.graph import ArchitectureGraph, Vertex
from daskevo.testing.graphs import GraphBuilder, architecture_graphs, renamed
from tests.graph.oracle import cone_order

_PRINT_IDS = """
from tests.graph.test_identity import sample
print([vertex_id.hex() for vertex_id in sample().ids])
"""


def sample() -> ArchitectureGraph:
    """Return a graph in which every part of an id has its place."""
    builder = GraphBuilder()
    x, y = builder.input(4), builder.input(4)
    twins = [builder.dense(x), builder.dense(x)]
    shared = builder.layer("Dense", "grüße", [(4, 8), (8,)])
    calls = [builder.call(shared, y), builder.call(shared, y)]
    merged = builder.merge("Add", *twins, *calls)
    split = builder.call(builder.layer("Split"), merged)
    lstm = builder.call(builder.layer("LSTM", 4, [(4, 16)]), (split, 1), mask=x)
    return builder.graph(lstm, (split, 0))


def test_are_the_same_in_every_process_and_for_every_hash_seed() -> None:
    outputs = []
    for seed in ("0", "1", "4294967295"):
        run = subprocess.run(
            [sys.executable, "-c", _PRINT_IDS],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.append(run.stdout.strip())
    assert outputs == [str([vertex_id.hex() for vertex_id in sample().ids])] * 3


def test_never_change_between_versions() -> None:
    # If this fails, models stored by earlier versions no longer match: change the scheme's name and say so.
    assert [vertex_id.hex()[:8] for vertex_id in sample().ids] == [
        "34e07a1b",
        "7847d429",
        "77512abe",
        "99af88d2",
        "77fa5b9e",
        "c898de5e",
        "afa52b5e",
        "3bc2299c",
        "13318e1c",
    ]


@given(architecture_graphs())
@settings(max_examples=100)
def test_are_unique_in_a_graph_and_blind_to_names(graph: ArchitectureGraph) -> None:
    assert len(set(graph.ids)) == len(graph.vertices)
    assert {len(vertex_id) for vertex_id in graph.ids} == {16}
    assert renamed(graph).ids == graph.ids


@given(architecture_graphs())
@settings(max_examples=50)
def test_a_change_reaches_exactly_the_cone_above_it(graph: ArchitectureGraph) -> None:
    order = cone_order(graph)
    for changed in range(len(graph.vertices)):
        vertices = list(graph.vertices)
        # A signature that nothing else has, so that ordinals of twins elsewhere may only fall.
        vertices[changed] = replace(vertices[changed], signature="changed")
        other = replace(graph, vertices=tuple(vertices))
        above = _cone_above(graph, changed)
        for index in range(len(vertices)):
            if index in above:
                assert other.ids[index] not in graph.ids
            elif order.index(index) < order.index(changed):
                assert other.ids[index] == graph.ids[index]


def _cone_above(graph: ArchitectureGraph, changed: int) -> set[int]:
    above = {changed}
    for index in cone_order(graph):
        vertex = graph.vertices[index]
        first = graph.calls[vertex.layer][0]
        if above & ({edge.source for edge in vertex.edges} | {first}):
            above.add(index)
    return above


def test_parts_of_a_signature_can_not_move_between_fields() -> None:
    def ids(**parts: object) -> bytes:
        builder = GraphBuilder()
        x = builder.input(4)
        call = builder.call(builder.layer("Dense"), x, x)
        graph = builder.graph(call)
        vertex: Vertex = graph.vertices[call]
        edges = tuple(replace(edge, argument=name) for edge, name in zip(vertex.edges, parts["names"], strict=True))
        return replace(graph, vertices=(graph.vertices[0], replace(vertex, edges=edges))).ids[call]

    assert ids(names=("a", "bc")) != ids(names=("ab", "c"))
