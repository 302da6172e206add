"""Architecture graphs for the simulator: those of a real problem, or made fast of a space's choices."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

from daskevo.errors import InvalidInput
from daskevo.freeze_policy import FreezePolicy
from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Prefix, Vertex
from daskevo.graph.prefix import closed, frozen_share
from daskevo.search import Request
from daskevo.space import Candidate, Choice, ModelSpace, Space
from daskevo.types import JSON, TensorSpec
from daskevo_workflows.problems.protocol import Problem

Graphs = Callable[[Candidate], ArchitectureGraph]
"""Gives a candidate's architecture graph."""

WIDTHS = (16, 32, 48, 64, 80, 96, 112, 128)


def of_problem(problem: Problem, keep: int = 100_000) -> Graphs:
    """Return the graphs of a problem's candidates, each made once: as long as a real search takes for it.

    Parameters
    ----------
    keep:
        Graphs that are kept.
    """
    from daskevo_workflows.problems.building import graph_of

    made: dict[str, ArchitectureGraph] = {}

    def graph(candidate: Candidate) -> ArchitectureGraph:
        name = str(candidate.to_json())
        if name not in made:
            if len(made) >= keep:
                del made[next(iter(made))]
            made[name] = graph_of(problem, candidate)
        return made[name]

    return graph


def settings_of(graph: ArchitectureGraph) -> bytes:
    """Return what a graph knows of its layers beyond their ids: of candidates that differ in it, each is evaluated."""
    return json.dumps([_unnamed(layer.config) for layer in graph.layers], sort_keys=True).encode()


def _unnamed(config: JSON) -> JSON:
    if isinstance(config, dict):
        return {key: _unnamed(value) for key, value in config.items() if key != "name"}
    return [_unnamed(value) for value in config] if isinstance(config, list) else config


def layered_space(layers: int = 12, options: int = 8) -> Space:
    """Return a space of layers of some width each, for searches of very many candidates."""
    return Space("layered", tuple(Choice(f"layer{number}", tuple(range(options))) for number in range(layers)))


def layered(space: ModelSpace, width: int = 1) -> Graphs:
    """Return graphs with a dense layer for each choice of a space, one after the other: fractions of a millisecond.

    Parameters
    ----------
    width:
        Factor of the layers' widths: parameters grow with its square.

    Raises
    ------
    InvalidInput
        If the space has no list of choices.
    """
    if not isinstance(space, Space):
        raise InvalidInput("layered graphs are made of a daskevo.space.Space: give the graphs of a problem instead")
    choices = space.choices

    def graph(candidate: Candidate) -> ArchitectureGraph:
        values = space.values(candidate)
        layers, vertices, before = [LayerRecord("x", {})], [Vertex(0, "input 16")], 16
        for number, choice in enumerate(choices, 1):
            place = choice.options.index(values[choice.name])
            units = width * WIDTHS[place % len(WIDTHS)]
            tensors = (TensorSpec((before, units), "float32"), TensorSpec((units,), "float32"))
            layers.append(LayerRecord(choice.name, {}, tensors))
            vertices.append(Vertex(number, f"{choice.name} {place}", (Edge(number - 1, 0, "inputs"),)))
            before = units
        return ArchitectureGraph(tuple(layers), tuple(vertices), (0,), ((len(vertices) - 1, 0),))

    return graph


def landscape(request: Request, graph: ArchitectureGraph, seed: int) -> float:
    """Return a made-up quality, 0 to 1: alike for models that share much, and a little luck."""

    def drawn(data: bytes) -> float:
        return int.from_bytes(hashlib.blake2b(data, digest_size=6, salt=seed.to_bytes(8, "little")).digest()) / 2**48

    shared = sum(map(drawn, graph.ids)) / len(graph.ids)
    return 0.9 * shared + 0.1 * drawn(request.model_id.encode())


def frozen_layers(
    graph: ArchitectureGraph, prefix: Prefix, policy: FreezePolicy, steps: dict[int, int]
) -> tuple[frozenset[int], float]:
    """Return which layers an evaluation does not train, and their share of the vertices, by the rules of
    :mod:`daskevo.models.freezing`, as far as a graph tells."""
    last = next((vertex.layer for vertex in reversed(graph.vertices) if graph.layers[vertex.layer].tensors), None)
    able = [layer for layer in prefix.freezable(graph) if layer != last and graph.layers[layer].tensors]
    least = {layer: min(steps.get(number, 0) for number in graph.tensor_numbers(layer)) for layer in able}
    trains = [bool(layer.tensors) for layer in graph.layers]
    frozen = frozenset(closed(graph, policy.choose(able, least), trains))
    return frozen, frozen_share(graph, frozen)
