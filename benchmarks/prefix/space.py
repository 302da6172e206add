"""A space of architectures like those of the paper's queries, and its models' vertex ids, made fast.

Source: paper 000, section 5.3 (DeepHyper's generator of dense networks with skip connections). A model is an input,
CELLS cells and an output. A cell is one of 31 operations (none, or Dense of one of 6 widths and 5 activations); each of
up to three earlier cells may be added to what comes out of it, projected to its width first and followed by an
activation. That gives 25 leaf layers on average.

Ids are made by the rule of :mod:`daskevo.graph.identity`, without the objects of a graph: what is hashed for a
signature and its tensors is kept, so that a vertex costs its two hashes. 60,000 models take some seconds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from itertools import accumulate
from struct import pack
from typing import NamedTuple

from daskevo.graph.identity import SCHEME
from daskevo.index import pack_edges

CELLS = 6
WIDTHS = (16, 32, 48, 64, 80, 96)
ACTIVATIONS = ("linear", "relu", "tanh", "sigmoid", "swish")
OPERATIONS = 1 + len(WIDTHS) * len(ACTIVATIONS)
ANCHORS = 3
_ANCHORS = [min(cell + 1, ANCHORS) for cell in range(CELLS)]
_FIRST_BIT = [CELLS, *accumulate(_ANCHORS, initial=CELLS)][1:]
GENES = CELLS + sum(_ANCHORS)
INPUT_WIDTH = 32
OUTPUT_WIDTH = 2

Genome = tuple[int, ...]
"""An operation for each cell, then 0 or 1 for each of its anchors."""


class Leaf(NamedTuple):
    """A vertex: what it computes, the widths of its Dense tensors or None, and what flows in."""

    signature: str
    shape: tuple[int, int] | None
    sources: tuple[int, ...]


class Model(NamedTuple):
    """An architecture as the rivals want it.

    Parameters
    ----------
    genome:
        What it was made from.
    leaves:
        Its vertices, in topological order.
    ids:
        Their ids, joined.
    """

    genome: Genome
    leaves: tuple[Leaf, ...]
    ids: bytes

    @property
    def edges(self) -> bytes:
        """Its edges, packed for a query."""
        return pack_edges((source, target) for target, leaf in enumerate(self.leaves) for source in leaf.sources)


def sample(draw: random.Random) -> Genome:
    """Return a genome by chance."""
    operations = [draw.randrange(OPERATIONS) for _ in range(CELLS)]
    return tuple(operations + [draw.randrange(2) for _ in range(GENES - CELLS)])


def mutate(draw: random.Random, genome: Genome) -> Genome:
    """Return a genome that differs in one gene."""
    place = draw.randrange(GENES)
    choices = OPERATIONS if place < CELLS else 2
    other = (genome[place] + draw.randrange(1, choices)) % choices
    return (*genome[:place], other, *genome[place + 1 :])


def express(genome: Genome) -> Model:
    """Make the architecture of a genome."""
    leaves = [Leaf("InputLayer", None, ())]
    widths = [INPUT_WIDTH]

    def add(signature: str, sources: Sequence[int], units: int | None = None) -> int:
        width = widths[sources[0]]
        leaves.append(Leaf(signature, None if units is None else (width, units), tuple(sources)))
        widths.append(width if units is None else units)
        return len(leaves) - 1

    latest = 0
    anchors = [0]
    for cell in range(CELLS):
        if genome[cell]:
            width, activation = divmod(genome[cell] - 1, len(ACTIVATIONS))
            latest = add(f"Dense {WIDTHS[width]} {ACTIVATIONS[activation]}", [latest], WIDTHS[width])
        units = widths[latest]
        added = [
            add(f"Dense {units} linear", [anchor], units)
            for bit, anchor in enumerate(anchors)
            if genome[_FIRST_BIT[cell] + bit]
        ]
        if added:
            latest = add("Activation relu", [add("Add", [latest, *added])])
        anchors = [*anchors, latest][-ANCHORS:]
    add(f"Dense {OUTPUT_WIDTH} softmax", [latest], OUTPUT_WIDTH)
    return Model(genome, tuple(leaves), ids_of(leaves))


def _hash(data: bytes) -> bytes:
    return blake2b(data, digest_size=16, person=SCHEME).digest()


@cache
def _kind(signature: str, shape: tuple[int, int] | None, sources: int) -> bytes:
    """What all vertices of a kind begin their inner hash with."""
    specs = [] if shape is None else [[list(shape), "float32"], [[shape[1]], "float32"]]
    tensors = json.dumps(specs, separators=(",", ":"))
    position = 0 if signature == "InputLayer" else -1
    return (
        _hash(signature.encode()) + b"T" + _hash(tensors.encode()) + pack("<?iI", signature == "Add", position, sources)
    )


_EDGE = pack("<IH", 0, len(b"inputs")) + b"inputs"
_FIRST = pack("<I", 0)


def ids_of(leaves: Sequence[Leaf]) -> bytes:
    """Return the ids of vertices, joined: those that :func:`daskevo.graph.identity.vertex_ids` makes."""
    ids: list[bytes] = []
    twins: dict[bytes, int] = {}
    for signature, shape, sources in leaves:
        edges = [ids[source] + _EDGE for source in sources]
        if len(edges) > 1:
            edges.sort()  # only Add has several, and its order doesn't matter
        inner = _hash(_kind(signature, shape, len(edges)) + b"".join(edges))
        ordinal = twins.get(inner, 0)
        twins[inner] = ordinal + 1
        ids.append(_hash(inner + (_FIRST if not ordinal else pack("<I", ordinal))))
    return b"".join(ids)
