"""Graphs that mutators change: every primitive, what it refuses, and the history it leaves."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskevo.errors import InvalidInput, InvalidMutation
from daskevo.space import ModelGraph, Node, cell_of, layer
from daskevo.space.nodes import source_of


def dense(units: int = 8) -> object:
    return layer("Dense", units=units)


def diamond() -> ModelGraph:
    """in -> a -> (b, c) -> add -> out"""
    graph = ModelGraph("diamond")
    graph.add_input("in", layer("InputLayer", batch_shape=(None, 4)))
    graph.create("a", dense(), ["in"])
    graph.create("b", dense(), ["a"])
    graph.create("c", dense(), ["a"])
    graph.create("add", layer("Add"), ["b", "c"])
    graph.create("out", dense(2), ["add"])
    graph.outputs = ("out",)
    return graph.as_base()


def refused(graph: ModelGraph, reason: str, nodes: set[str], act: object) -> None:
    before = graph.digest()
    with pytest.raises(InvalidMutation) as caught:
        act()
    assert caught.value.reason == reason
    assert nodes <= set(caught.value.nodes)
    assert graph.digest() == before, "what is refused changes nothing"


def test_create_and_connect() -> None:
    graph = diamond()
    assert graph.create("d", dense(), ["in"]) == "d"
    graph.connect("d", "add")
    graph.connect("in", "add", at=0)
    assert graph["add"].inputs == ("in", "b", "c", "d")
    graph.disconnect("in", "add")
    assert graph["add"].inputs == ("b", "c", "d")
    assert [done.primitive for done in graph.history] == ["create", "connect", "connect", "disconnect"]
    assert graph.untouched == ("in", "a", "b", "c", "out")
    refused(graph, "name-taken", {"a"}, lambda: graph.create("a", dense()))
    refused(graph, "name", {"a b"}, lambda: graph.create("a b", dense()))
    refused(graph, "missing-node", {"nobody"}, lambda: graph.create("e", dense(), ["nobody"]))
    refused(graph, "layer", {"e"}, lambda: graph.create("e", "Dense"))  # type: ignore[arg-type]
    refused(graph, "cycle", {"add", "a"}, lambda: graph.connect("add", "a"))
    refused(graph, "cycle", {"a"}, lambda: graph.connect("a", "a"))
    refused(graph, "missing-node", {"a", "out"}, lambda: graph.disconnect("a", "out"))
    refused(graph, "call", {"in"}, lambda: graph.connect("a", "in"))


def test_delete_leads_the_input_on() -> None:
    graph = diamond()
    graph.delete("b")
    assert graph["add"].inputs == ("a", "c")
    graph.delete("out")
    assert graph.outputs == ("add",)
    graph.check()
    refused(graph, "dangling", {"in"}, lambda: graph.delete("in"))
    refused(graph, "dangling", {"add"}, lambda: graph.delete("add"))
    refused(graph, "missing-node", {"b"}, lambda: graph.delete("b"))


def test_delete_without_a_bridge_waits_for_another_input() -> None:
    graph = diamond()
    graph.delete("add", bridge=False)
    with pytest.raises(InvalidMutation, match="'out' has no input") as caught:
        graph.check()
    assert (caught.value.reason, caught.value.nodes) == ("dangling", ("out",))
    graph.connect("c", "out")
    graph.check()
    refused(graph, "dangling", {"out"}, lambda: graph.delete("out", bridge=False))


def test_replace_keeps_name_and_wires() -> None:
    graph = diamond()
    graph.replace("b", layer("Dropout", rate=0.1))
    assert (graph["b"].kind, graph["b"].inputs, graph["add"].inputs) == ("Dropout", ("a",), ("b", "c"))
    assert "b" not in graph.untouched
    refused(graph, "dangling", {"in"}, lambda: graph.replace("in", dense()))


def test_insert_after_takes_over_all_that_followed() -> None:
    graph = diamond()
    made = graph.insert_after("a", layer("ReLU"))
    assert made == "relu"
    assert (graph["relu"].inputs, graph["b"].inputs, graph["c"].inputs) == (("a",), ("relu",), ("relu",))
    graph.insert_after("out", layer("Softmax"), "softmax")
    assert graph.outputs == ("softmax",)
    refused(graph, "missing-node", {"nobody"}, lambda: graph.insert_after("nobody", dense()))


def test_change_input() -> None:
    graph = diamond()
    graph.change_input("add", 1, "in")
    assert graph["add"].inputs == ("b", "in")
    refused(graph, "cycle", {"out", "add"}, lambda: graph.change_input("add", 0, "out"))
    refused(graph, "missing-node", {"add"}, lambda: graph.change_input("add", 2, "in"))
    graph.change_input("add", 0, "in")
    # Nodes that no output needs any more aren't part of the model.
    assert set(graph.expanded().order()) == {"in", "add", "out"}


def test_repeat_a_node_and_a_chain() -> None:
    graph = diamond()
    assert graph.repeat("b", 3, units=5, rate=0.1) == ("b.r1", "b.r2")
    assert (graph["b.r1"].inputs, graph["b.r2"].inputs, graph["add"].inputs) == (("b",), ("b.r1",), ("b.r2", "c"))
    assert [graph[name].config["units"] for name in ("b", "b.r1", "b.r2")] == [8, 5, 5]
    assert graph.repeat(("b.r1", "b.r2"), 2) == ("b.r1.r1", "b.r2.r1")
    assert (graph["b.r1.r1"].inputs, graph["b.r2.r1"].inputs) == (("b.r2",), ("b.r1.r1",))
    assert graph["add"].inputs == ("b.r2.r1", "c")
    graph.check()
    refused(graph, "chain", {"a", "b"}, lambda: graph.repeat(("a", "b"), 2))
    refused(graph, "chain", {"add"}, lambda: graph.repeat("add", 2))
    assert graph.repeat("out", 1) == ()
    with pytest.raises(InvalidInput, match="times=0"):
        graph.repeat("out", 0)


def test_a_group_is_a_node_and_can_be_repeated_and_replaced() -> None:
    graph = diamond()
    plain = graph.expanded()
    graph.group(("b", "c", "add"), "block")
    assert (graph["block"].kind, graph["block"].inputs, graph["out"].inputs) == ("Cell", ("a",), ("block",))
    graph.check()
    flat = graph.expanded()
    assert flat["block.add"].inputs == ("block.b", "block.c")
    assert len(flat) == len(plain)
    graph.repeat("block", 2)
    assert len(graph.expanded()) == len(plain) + 3
    graph.replace("block", cell_of(layer("Dense", units=8), layer("ReLU")))
    assert graph.expanded()["block.relu"].inputs == ("block.dense",)
    refused(graph, "dangling", {"in"}, lambda: graph.group(("in", "a"), "block2"))
    other = diamond()
    refused(other, "cycle", {"b"}, lambda: other.group(("a", "add"), "loop"))
    refused(other, "name-taken", {"out"}, lambda: other.group(("b",), "out"))


def test_cells_may_nest_and_have_several_inputs_and_outputs() -> None:
    inner = cell_of(layer("Dense", units=3), name="inner")
    cell = ModelGraph("outer")
    one, two = cell.add_input("one"), cell.add_input("two")
    cell.create("left", inner, [one])
    cell.create("sum", layer("Add"), ["left", two])
    cell.outputs = ("sum", one)
    graph = diamond()
    graph.create("cell", cell, ["b", "c"])
    graph.change_input("add", 0, "cell")
    graph.change_input("add", 1, "cell:1")
    flat = graph.expanded()
    assert flat["add"].inputs == ("cell.sum", "b")
    assert flat["cell.left.dense"].inputs == ("b",)
    refused(graph, "missing-node", {"cell"}, lambda: graph.connect("cell:2", "add"))
    refused(graph, "call", {"cell"}, lambda: graph.connect("a", "cell"))
    graph.disconnect("cell:1", "add")
    graph.connect("cell:1", "add")
    refused(graph, "dangling", {"cell"}, lambda: graph.replace("cell", dense()))
    graph.create("short", cell, ["b"])
    with pytest.raises(InvalidMutation, match="2 inputs, and 1 flow"):
        graph.check()


def test_a_shared_layer_stays_shared_when_its_owner_goes() -> None:
    graph = diamond()
    for name in ("b2", "b3"):
        graph.put(Node(name, graph["b"].layer, ("c",), shares="b"))
        graph.connect(name, "add")
    graph.delete("b")
    assert (graph["b2"].shares, graph["b3"].shares) == (None, "b2")
    refused(graph, "dangling", {"b2", "b3"}, lambda: graph.group(("b2",), "cell"))


def test_inputs_that_were_passed_by_name_take_no_further_one() -> None:
    graph = diamond()
    graph.put(Node("mha", layer("MultiHeadAttention", num_heads=1, key_dim=1), ("a", "a"), {"args": [], "kwargs": {}}))
    refused(graph, "call", {"mha"}, lambda: graph.connect("b", "mha"))


def test_history_says_who_did_what_where_and_with_which_choices() -> None:
    graph = diamond()
    with graph.acting("grow", ("a",), "a.", {"units": 16}):
        assert graph.create("more", dense(16), ["a"]) == "a.more"
        assert graph.create("more", dense(16), ["a"]) == "a.more.2"
    graph.delete("a.more")
    done = graph.history[0]
    assert (done.mutator, done.at, done.primitive, done.nodes, done.choices) == (
        "grow",
        ("a",),
        "create",
        ("a.more",),
        {"units": 16},
    )
    assert graph.history[-1].mutator is None
    assert graph.as_base().history == ()
    assert set(graph.as_base().untouched) == set(graph.order())


def test_errors_survive_between_processes() -> None:
    with pytest.raises(InvalidMutation) as caught:
        diamond()["nobody"]
    rebuild, arguments = caught.value.__reduce__()
    again = rebuild(*arguments)
    assert (str(again), again.reason, again.nodes) == (str(caught.value), "missing-node", ("nobody",))


def test_a_copy_is_changed_apart() -> None:
    graph = diamond()
    other = graph.copy()
    other.delete("b")
    assert "b" in graph
    assert graph != other
    assert copy.copy(graph) == graph
    assert json.loads(json.dumps(graph["b"].layer.to_json()))["class_name"] == "Dense"


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(0, 30)), max_size=12)


@given(STEPS)
@settings(max_examples=40)
def test_any_sequence_of_primitives_leaves_a_graph_without_cycles(steps: list[tuple[int, int, int]]) -> None:
    graph = diamond()
    for what, one, two in steps:
        names = graph.order()
        a, b = names[one % len(names)], names[two % len(names)]
        before = graph.digest()
        acts = (
            lambda a=a, b=b: graph.connect(a, b),
            lambda a=a: graph.delete(a),
            lambda a=a: graph.replace(a, dense()),
            lambda a=a: graph.insert_after(a, dense(), f"n{len(graph)}x{len(graph.history)}"),
            lambda a=a, b=b: graph.change_input(a, 0, b),
            lambda a=a: graph.repeat(a, 2),
            lambda a=a, b=b: graph.group(dict.fromkeys((a, b)), f"g{len(graph.history)}"),
        )
        try:
            acts[what]()
        except InvalidMutation:
            assert graph.digest() == before, "what is refused changes nothing"
        graph.check()
        order = graph.order()
        assert len(order) == len(set(order)) == len(graph)
        for position, name in enumerate(order):
            assert set(graph.sources(name)) <= set(order[:position])
        assert all(source_of(place)[0] in graph for place in graph.outputs)
        graph.expanded().check()
