"""The id of a vertex: a hash of its signature and of its whole ancestor cone.

Source: paper 000, sections 2 and 4.2 (a vertex is in the prefix if its leaf layer is identical in both models and all
that feeds it is in the prefix too). Because an id contains the ids of all that flows in, *the id occurs in the other
model* says exactly that, and the longest common prefix is an intersection of sets.

The id of a vertex is ``H(H(signature, in-edges, ...), twin ordinal)`` with H = blake2b-128. The inner hash covers

- the signature, and shapes and dtypes of the layer's tensors;
- the digest of the weights that were loaded into the layer before it trained, if there were any: pretrained or not,
  and from which file, are two experiments, which must not go on from each other's weights;
- the ordered (id of the predecessor, output slot, argument) of the in-edges; sorted, and without the position inside
  an argument, if the vertex is commutative;
- the vertex' position among the model's inputs, if it is one;
- of each further call of a layer, the id of its first, which says whose weights it uses. The first is the call with the
  fewest vertices upstream: a change reaches it last, so calls before a change keep their ids, whatever order branches
  are flattened in. The price: a model that extends another by a call with fewer vertices upstream shares less with it.

Vertices of one model with equal inner hashes are *twins*: identical branches, which must not be taken for one layer
used twice. They are told apart by their ordinal in flatten order, so ids are unique inside a model. The price is that
a graph whose twins are flattened in another order can match a little less; never more.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import pack

from daskevo.graph.parts import Edge, LayerRecord, Vertex
from daskevo.types import TensorSpec, VertexId

SCHEME = b"daskevo-vertex-1"
"""Part of every hash: ids of another scheme can never equal these. Changing it, or anything below, makes all stored
models unmatchable."""


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16, person=SCHEME).digest()


def vertex_ids(
    layers: Sequence[LayerRecord], vertices: Sequence[Vertex], inputs: Sequence[int]
) -> tuple[VertexId, ...]:
    """Return the id of each vertex, in order; the same in every process and on every machine.

    Parameters
    ----------
    layers, vertices, inputs:
        The fields of an :class:`~daskevo.graph.ArchitectureGraph`, valid.
    """
    positions = {vertex: position for position, vertex in enumerate(inputs)}
    # A layer's first call comes before its others, whose ids contain the first one's.
    order = by_cone(layers, vertices)
    # Each distinct signature is hashed once, however many vertices share it.
    signatures: dict[str, bytes] = {}
    first_call: dict[int, bytes] = {}
    twins: dict[bytes, int] = {}
    ids = [b""] * len(vertices)
    for index in order:
        vertex = vertices[index]
        signature = signatures.get(vertex.signature)
        if signature is None:
            signature = signatures[vertex.signature] = _hash(vertex.signature.encode())
        first = first_call.get(vertex.layer)
        # The tensors of a later call are those of the first, whose id it contains.
        # The letters C, S and T keep apart what the digests behind them are of; these have the same length.
        belongs = b"C" + first if first is not None else _begins(layers[vertex.layer])
        edges = [_edge(ids[edge.source], edge, vertex.commutative) for edge in vertex.edges]
        if vertex.commutative:
            edges.sort()
        # Every part has a fixed length or says its length, so no two contents give the same bytes.
        inner = _hash(
            b"".join(
                (
                    signature,
                    belongs,
                    pack("<?iI", vertex.commutative, positions.get(index, -1), len(edges)),
                    *edges,
                )
            )
        )
        ordinal = twins.get(inner, 0)
        twins[inner] = ordinal + 1
        ids[index] = _hash(inner + pack("<I", ordinal))
        first_call.setdefault(vertex.layer, ids[index])
    return tuple(map(VertexId, ids))


def _begins(layer: LayerRecord) -> bytes:
    """Return what a layer's tensors are, and what was loaded into them."""
    specs = _text(layer.tensors)
    return b"S" + _hash(f"{specs} {layer.start}".encode()) if layer.start else b"T" + _hash(specs.encode())


def _text(specs: Sequence[TensorSpec]) -> str:
    """Return specifications as JSON text without blanks; written out, since an encoder takes ten times as long."""
    return "[" + ",".join([f'[[{",".join(map(str, spec.shape))}],"{spec.dtype}"]' for spec in specs]) + "]"


def by_cone(layers: Sequence[LayerRecord], vertices: Sequence[Vertex]) -> Sequence[int]:
    """Return the vertices by how many others are upstream, those with as many in flatten order; it is topological.

    If no layer is called twice, the order makes no difference, and is flatten order.
    """
    if len(vertices) <= len(layers):
        return range(len(vertices))
    cones: list[int] = []
    for index, vertex in enumerate(vertices):
        # Sets of vertices as the bits of integers: a union is one operation.
        cone = 1 << index
        for edge in vertex.edges:
            cone |= cones[edge.source]
        cones.append(cone)
    return sorted(range(len(vertices)), key=lambda index: cones[index].bit_count())


def _edge(source_id: bytes, edge: Edge, commutative: bool) -> bytes:
    argument = (edge.argument.partition("/")[0] if commutative else edge.argument).encode()
    return source_id + pack("<IH", edge.slot, len(argument)) + argument
