"""The architecture graph of a model: its leaf layers, their calls, and what flows between the calls."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from daskevo.graph.codec import decode, encode, from_text, to_text
from daskevo.graph.identity import by_cone, vertex_ids
from daskevo.graph.parts import LayerRecord, TensorKey, Vertex
from daskevo.graph.validation import check_parts
from daskevo.types import JSON, VertexId


@dataclass(frozen=True)
class ArchitectureGraph:
    """A model without its weights: enough to compare it, to number its tensors and to rebuild it.

    Source: paper 000, section 2 (leaf layers are vertices, nested models are inlined).

    Parameters
    ----------
    layers:
        Leaf layers in the order of their first call.
    vertices:
        Calls of leaf layers in flatten order, which is topological.
    inputs:
        Index of the vertex of each of ``model.inputs``, in that order.
    outputs:
        (vertex, output slot) of each of the model's outputs.
    structure:
        Nesting and names of inputs and outputs; read by :mod:`daskevo.models` only.

    Raises
    ------
    InvalidInput
        If the parts make no graph, with the first that doesn't fit (see :mod:`daskevo.graph.validation`).

    Examples
    --------
    >>> from daskevo.graph import Edge
    >>> from daskevo.types import TensorSpec
    >>> dense = LayerRecord("dense", {}, (TensorSpec((4, 8), "float32"), TensorSpec((8,), "float32")))
    >>> graph = ArchitectureGraph(
    ...     layers=(LayerRecord("x", {}), dense),
    ...     vertices=(Vertex(0, "input 4"), Vertex(1, "dense 8", (Edge(0, 0, "inputs"),))),
    ...     inputs=(0,),
    ...     outputs=((1, 0),),
    ... )
    >>> graph.parameters, graph.nbytes, list(graph.tensor_numbers(1))
    (40, 160, [0, 1])
    """

    layers: tuple[LayerRecord, ...]
    vertices: tuple[Vertex, ...]
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, int], ...]
    structure: JSON = None

    def __post_init__(self) -> None:
        check_parts(self.layers, self.vertices, self.inputs, self.outputs, self.structure)

    @cached_property
    def ids(self) -> tuple[VertexId, ...]:
        """The id of each vertex, unique inside the graph (see :mod:`daskevo.graph.identity`)."""
        return vertex_ids(self.layers, self.vertices, self.inputs)

    @cached_property
    def calls(self) -> tuple[tuple[int, ...], ...]:
        """The vertices of each layer; the first, with the fewest vertices upstream, brings the weights."""
        calls: list[list[int]] = [[] for _ in self.layers]
        for index in by_cone(self.layers, self.vertices):
            calls[self.vertices[index].layer].append(index)
        return tuple(map(tuple, calls))

    @cached_property
    def input_positions(self) -> dict[int, int]:
        """Vertex -> its position in `inputs`."""
        return {vertex: position for position, vertex in enumerate(self.inputs)}

    @cached_property
    def tensors(self) -> tuple[TensorKey, ...]:
        """All tensors by number: layer by layer, in each by index in ``layer.weights``."""
        return tuple(
            TensorKey(number, index, spec)
            for number, layer in enumerate(self.layers)
            for index, spec in enumerate(layer.tensors)
        )

    @cached_property
    def _first_tensors(self) -> tuple[int, ...]:
        firsts = [0]
        for layer in self.layers:
            firsts.append(firsts[-1] + len(layer.tensors))
        return tuple(firsts)

    def tensor_numbers(self, layer: int) -> range:
        """Return the tensor numbers of a layer, given by its index in `layers`."""
        return range(self._first_tensors[layer], self._first_tensors[layer + 1])

    @property
    def starts(self) -> dict[int, str]:
        """Layer -> `LayerRecord.start`, of those that weights were loaded into."""
        return {number: layer.start for number, layer in enumerate(self.layers) if layer.start}

    def started(self, starts: Mapping[int, str]) -> ArchitectureGraph:
        """Return the graph with these `starts` and no others."""
        # The same object keeps what it has worked out: ids, calls, tensors.
        if starts == self.starts:
            return self
        layers = (replace(layer, start=starts.get(number, "")) for number, layer in enumerate(self.layers))
        return replace(self, layers=tuple(layers))

    @cached_property
    def nbytes(self) -> int:
        """Size of all tensors, in bytes."""
        return sum(tensor.spec.nbytes for tensor in self.tensors)

    @cached_property
    def parameters(self) -> int:
        """Number of values in all tensors."""
        return sum(math.prod(tensor.spec.shape) for tensor in self.tensors)

    def to_json(self) -> JSON:
        """Return the graph as a JSON value, with each distinct signature once."""
        return encode(self.layers, self.vertices, self.inputs, self.outputs, self.structure)

    @classmethod
    def from_json(cls, value: JSON) -> ArchitectureGraph:
        """Read what `to_json` wrote.

        Raises
        ------
        CorruptRecord
            If it is anything else, hostile input included; nothing of it is run or imported.
        """
        return decode(cls, value)

    @cached_property
    def text(self) -> str:
        """The graph as it is stored and sent: ``to_json()`` as ASCII JSON text without blanks."""
        text = to_text(self.to_json())
        _remember(text, self)
        return text

    @staticmethod
    def of_text(text: str) -> ArchitectureGraph:
        """Read what `text` wrote; raises CorruptRecord as `from_json` does.

        The last graphs that were read or written are kept: a search reads the same ancestors again and again.
        """
        # Without the lock: a dict lookup is atomic, and a miss only costs another decoding.
        graph = _last.get(text)
        if graph is None:
            graph = ArchitectureGraph.from_json(from_text(text))
        _remember(text, graph)
        return graph


_KEPT = 64

_last: dict[str, ArchitectureGraph] = {}
_lock = threading.Lock()


def _remember(text: str, graph: ArchitectureGraph) -> None:
    with _lock:
        # Inserted again at the end: the first one is the one that has gone unused for longest.
        _last.pop(text, None)
        _last[text] = graph
        if len(_last) > _KEPT:
            del _last[next(iter(_last))]
