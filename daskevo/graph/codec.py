"""Architecture graphs as JSON values, and back with every part checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph.earlier_signatures import as_written_now
from daskevo.graph.parts import Edge, LayerRecord, Vertex
from daskevo.types import JSON, TensorSpec

FORMAT = "daskevo architecture graph 1"

_Graph = TypeVar("_Graph")


def encode(
    layers: Sequence[LayerRecord],
    vertices: Sequence[Vertex],
    inputs: Sequence[int],
    outputs: Sequence[tuple[int, int]],
    structure: JSON,
) -> JSON:
    """Return the parts as one JSON value; vertices name their signature by its index in a table."""
    signatures: dict[str, int] = {}
    return {
        "format": FORMAT,
        "layers": [
            # `start` came later. Left out where empty, it leaves records as earlier versions wrote them.
            [layer.name, layer.config, [spec.to_json() for spec in layer.tensors], *filter(None, [layer.start])]
            for layer in layers
        ],
        "vertices": [
            [
                vertex.layer,
                signatures.setdefault(vertex.signature, len(signatures)),
                [[edge.source, edge.slot, edge.argument] for edge in vertex.edges],
                vertex.commutative,
                vertex.call,
            ]
            for vertex in vertices
        ],
        "signatures": list(signatures),
        "inputs": list(inputs),
        "outputs": [list(output) for output in outputs],
        "structure": structure,
    }


def to_text(value: JSON) -> str:
    """Return what `encode` returned as text."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def from_text(text: str) -> JSON:
    """Read what `to_text` wrote; raises CorruptRecord if it isn't strict JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    # A hostile text may be nested deeper than the parser goes.
    except (TypeError, ValueError, RecursionError) as error:
        raise CorruptRecord(f"not an architecture graph as daskevo writes it: {error}") from error


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


def decode(make: Callable[..., _Graph], value: JSON) -> _Graph:
    """Return what `make` makes of the parts in `value`.

    Raises
    ------
    CorruptRecord
        If they aren't laid out as `encode` does, or `make` refuses them with InvalidInput.
    """
    match value:
        case {
            "format": str() as found,
            "layers": list() as layers,
            "vertices": list() as vertices,
            "signatures": list() as signatures,
            "inputs": list() as inputs,
            "outputs": list() as outputs,
            "structure": structure,
        } if len(value) == 7:
            if found != FORMAT:
                raise CorruptRecord(
                    f"the architecture graph is in the format {found[:50]!r}; this version reads {FORMAT!r}"
                )
        case _:
            raise _malformed("the record")
    signatures = list(map(as_written_now, signatures))
    try:
        return make(
            layers=tuple(map(_layer, layers)),
            vertices=tuple(_vertex(vertex, signatures) for vertex in vertices),
            inputs=tuple(inputs),
            outputs=tuple(map(_output, outputs)),
            structure=structure,
        )
    except InvalidInput as error:
        raise CorruptRecord(f"not an architecture graph as daskevo writes it: {error}") from error


def _layer(value: JSON) -> LayerRecord:
    match value:
        case [name, config, list() as tensors]:
            return LayerRecord(name, config, tuple(map(TensorSpec.from_json, tensors)))
        case [name, config, list() as tensors, str() as start] if start:
            return LayerRecord(name, config, tuple(map(TensorSpec.from_json, tensors)), start)
    raise _malformed("a layer")


def _vertex(value: JSON, signatures: list[JSON]) -> Vertex:
    match value:
        case [layer, int() as signature, list() as edges, commutative, call]:
            # A negative index would count from the table's end.
            if 0 <= signature < len(signatures):
                return Vertex(layer, signatures[signature], tuple(map(_edge, edges)), commutative, call)
    raise _malformed("a vertex")


def _edge(value: JSON) -> Edge:
    match value:
        case [source, slot, argument]:
            return Edge(source, slot, argument)
    raise _malformed("an edge")


def _output(value: JSON) -> tuple[int, int]:
    match value:
        case [vertex, slot]:
            return vertex, slot
    raise _malformed("an output")


def _malformed(part: str) -> CorruptRecord:
    return CorruptRecord(f"not an architecture graph as daskevo writes it: {part} is malformed")
