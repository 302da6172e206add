"""What makes the parts of an architecture graph a graph: types, ranges, order and size limits."""

from __future__ import annotations

from collections.abc import Sequence

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.graph.parts import Edge, LayerRecord, Vertex
from daskevo.types import JSON, TensorSpec, check_json

# Ten times what the largest models in use have (keras.applications: 1,041 leaf layers, largest signature a few kB;
# a vocabulary may be megabytes). They keep a hostile record from costing more than it weighs.
MAX_VERTICES = 100_000
MAX_EDGES = 1_000_000
MAX_TENSORS = 1_000_000
MAX_SLOTS = 10_000
MAX_NAME_CHARACTERS = 1_000
MAX_ARGUMENT_CHARACTERS = 200
MAX_START_CHARACTERS = 100
MAX_SIGNATURE_CHARACTERS = 16 * 2**20
MAX_BYTES = 2**62


def check_parts(
    layers: Sequence[LayerRecord],
    vertices: Sequence[Vertex],
    inputs: Sequence[int],
    outputs: Sequence[tuple[int, int]],
    structure: JSON,
) -> None:
    """Raise InvalidInput unless the parts make an architecture graph.

    The rules: vertices stand in topological order; layers stand in the order of their first call, each called at
    least once; inputs are vertices that nothing flows into; there is at least one output.
    """
    for name, parts in (("layers", layers), ("vertices", vertices), ("inputs", inputs), ("outputs", outputs)):
        _check(parts, tuple, name)
    if not 1 <= len(vertices) <= MAX_VERTICES:
        raise _error(f"it has {len(vertices)} vertices, of 1 to {MAX_VERTICES} allowed")
    edges = 0
    seen = 0
    for index, vertex in enumerate(vertices):
        _check(vertex, Vertex, "vertex {}", index)
        _check(vertex.edges, tuple, "vertex {}.edges", index)
        _check(vertex.commutative, bool, "vertex {}.commutative", index)
        _check_text(vertex.signature, MAX_SIGNATURE_CHARACTERS, "vertex {}.signature", index)
        # Layers in order of their first call: the order that numbers the tensors.
        _check_index(vertex.layer, min(seen + 1, len(layers)), "vertex {}.layer", index)
        seen = max(seen, vertex.layer + 1)
        edges += len(vertex.edges)
        if edges > MAX_EDGES:
            raise _error(f"it has more than {MAX_EDGES} edges")
        for edge in vertex.edges:
            _check(edge, Edge, "an edge of vertex {}", index)
            _check_index(edge.source, index, "the source of an edge of vertex {}", index)
            _check_index(edge.slot, MAX_SLOTS, "the slot of an edge of vertex {}", index)
            _check_text(edge.argument, MAX_ARGUMENT_CHARACTERS, "the argument of an edge of vertex {}", index)
        if vertex.call is not None:
            check_json(vertex.call, f"call of vertex {index}")
    if seen != len(layers):
        raise _error(f"layer {seen} of {len(layers)} is never called, or its first call is out of order")
    _check_layers(layers)
    if len(inputs) > len(vertices) or len(outputs) > len(vertices) * MAX_SLOTS or not outputs:
        raise _error(f"it has {len(inputs)} inputs and {len(outputs)} outputs for {len(vertices)} vertices")
    for position, source in enumerate(inputs):
        _check_index(source, len(vertices), "input {}", position)
        if vertices[source].edges:
            raise _error(f"input {position} is vertex {source}, which other vertices flow into")
    if len(set(inputs)) != len(inputs):
        raise _error("two of its inputs are the same vertex")
    for position, output in enumerate(outputs):
        if type(output) is not tuple or len(output) != 2:
            raise _error(f"output {position} is no pair (vertex, slot)")
        _check_index(output[0], len(vertices), "the vertex of output {}", position)
        _check_index(output[1], MAX_SLOTS, "the slot of output {}", position)
    check_json(structure, "structure of the architecture graph")


def _check_layers(layers: Sequence[LayerRecord]) -> None:
    tensors = 0
    nbytes = 0
    for index, layer in enumerate(layers):
        _check(layer, LayerRecord, "layer {}", index)
        _check(layer.tensors, tuple, "layer {}.tensors", index)
        _check_text(layer.name, MAX_NAME_CHARACTERS, "layer {}.name", index)
        _check_text(layer.start, MAX_START_CHARACTERS, "layer {}.start", index)
        check_json(layer.config, f"config of layer {index}")
        tensors += len(layer.tensors)
        if tensors > MAX_TENSORS:
            raise _error(f"it has more than {MAX_TENSORS} tensors")
        for spec in layer.tensors:
            _check(spec, TensorSpec, "a tensor of layer {}", index)
            _check(spec.shape, tuple, "the shape of a tensor of layer {}", index)
            try:
                nbytes += TensorSpec.from_json([spec.shape, spec.dtype]).nbytes
            except CorruptRecord as error:
                raise _error(f"a tensor of layer {index} can't be stored ({error})") from error
        if nbytes >= MAX_BYTES:
            raise _error(f"its tensors have {nbytes} bytes or more")


def _check(value: object, kind: type, where: str, index: int | None = None) -> None:
    # What is wrong is put into words only where something is: models have hundreds of parts, and few have wrong ones.
    # The exact type: bool passes for int otherwise, and a subclass may compare and hash as it likes.
    if type(value) is not kind:
        raise _error(f"{where.format(index)} is of type {type(value).__name__}, expected {kind.__name__}")


def _check_text(text: object, most: int, where: str, index: int) -> None:
    _check(text, str, where, index)
    if len(text) > most:  # type: ignore[arg-type]
        raise _error(f"{where.format(index)} has {len(text)} characters, of {most} allowed")  # type: ignore[arg-type]
    # Lone surrogates can't be stored as UTF-8. Nearly all text is ASCII, which has none.
    if not text.isascii():  # type: ignore[attr-defined]
        check_json(text, where.format(index))


def _check_index(value: object, end: int, where: str, index: int) -> None:
    if type(value) is not int or not 0 <= value < end:
        found = repr(value)[:30] if isinstance(value, (int, float, str)) else type(value).__name__
        raise _error(f"{where.format(index)} is {found}, expected an int from 0 to below {end}")


def _error(found: str) -> InvalidInput:
    return InvalidInput(f"these parts make no architecture graph: {found}")
