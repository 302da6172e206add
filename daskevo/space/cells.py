"""Cells: parts of a model graph grouped into one node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from daskevo.space.nodes import INPUT, Layer, Node, place_of, source_of
from daskevo.space.wiring import Wiring

Graph = TypeVar("Graph", bound=Wiring)


def group(graph: Wiring, names: Sequence[str], name: str) -> str:
    """Replace several nodes by one cell; see :meth:`ModelGraph.group`."""
    inside = {each: graph[each] for each in names}
    _check_inside(graph, inside)
    # Sets would do, but the order of a cell's inputs and outputs must be the same in every process.
    entering = dict.fromkeys(
        place for node in inside.values() for place in node.inputs if source_of(place)[0] not in inside
    )
    # A path that leaves the group and enters it again would make the cell depend on itself.
    later = graph.descendants(*inside) - set(inside)
    if back := sorted({source_of(place)[0] for place in entering} & later):
        raise graph.error("cycle", f"a path leaves the cell and comes back through {back[0]!r}", (*inside, *back))
    cell = type(graph)(name)
    ports = {place: _port(cell, number) for number, place in enumerate(entering)}
    for node in inside.values():
        cell.put(replace(node, inputs=tuple(ports.get(place, place) for place in node.inputs)))
    outside = [place for node in graph.nodes if node.name not in inside for place in node.inputs]
    leaving = dict.fromkeys(place for place in (*outside, *graph.outputs) if source_of(place)[0] in inside)
    cell.outputs = tuple(leaving)
    slots = {place: slot for slot, place in enumerate(leaving)}
    made = graph.put(Node(graph.new_name(name), cell, tuple(entering)))
    graph.move(lambda place: place_of(made, slots[place]) if place in slots else place, apart=inside)
    for each in inside:
        graph.drop(each)
    return made


def _port(cell: Wiring, number: int) -> str:
    cell.inputs += (name := cell.put(Node(f"in{number}", Layer(INPUT, {}))),)
    return name


def _check_inside(graph: Wiring, inside: dict[str, Node]) -> None:
    if not inside or any(each in graph.inputs for each in inside):
        raise graph.error("dangling", "an input of the model can't be part of a cell", tuple(inside))
    for node in graph.nodes:
        if node.shares is not None and (node.name in inside) != (node.shares in inside):
            raise graph.error(
                "dangling",
                f"{node.name!r} and {node.shares!r} call the same layer: a cell has both or none",
                (node.name, node.shares),
            )


def expand(graph: Graph) -> Graph:
    """Return a copy with cells replaced by their nodes, and without nodes that no output depends on."""
    graph = graph.copy()
    # Again until there are none, because a cell may contain cells.
    while cells := [node for node in graph.nodes if isinstance(node.layer, Wiring)]:
        for cell in cells:
            _expand(graph, cell.name)
    # Inputs stay even if nothing depends on them: the model is called with all of them.
    needed = {*graph.needed(), *graph.inputs}
    for name in graph.order():
        if name not in needed:
            graph.drop(name)
    return graph


def _expand(graph: Wiring, name: str) -> None:
    cell = graph[name]
    inner = cell.layer
    assert isinstance(inner, Wiring)
    outside = dict(zip(inner.inputs, cell.inputs, strict=True))
    own = [node for node in inner.nodes if node.name not in outside]
    # The cell may stand several times in the graph, so its nodes get the cell's name as a prefix.
    names = {node.name: graph.free_name(f"{name}.{node.name}") for node in own}

    def moved(place: str) -> str:
        source, slot = source_of(place)
        return outside[source] if source in outside else place_of(names[source], slot)

    for node in own:
        shares = None if node.shares is None else names[node.shares]
        inputs = tuple(map(moved, node.inputs))
        graph.put(replace(node, name=names[node.name], inputs=inputs, shares=shares))

    def through(place: str) -> str:
        source, slot = source_of(place)
        return moved(inner.outputs[slot]) if source == name else place

    graph.move(through)
    graph.drop(name)
