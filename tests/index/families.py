"""Families of related models by vertex ids alone: thousands in a second, ids by the rule that matters here.

A model is a path of cells, each of which adds some branches that merge; its vertices' ids hash what flows in, so that
two models share exactly the vertices whose cones they share.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import NamedTuple

from daskevo.index import pack_edges
from daskevo.types import VertexId

Genes = tuple[int, ...]


class Model(NamedTuple):
    ids: list[VertexId]
    edges: bytes


def express(genes: Genes) -> Model:
    """Make a model: each gene adds a vertex whose operation, and whose one or two sources, it names."""
    ids: list[VertexId] = []
    edges: set[tuple[int, int]] = set()
    for gene in (0, *genes):
        operation, sources = gene % 3, gene // 3
        reach = [len(ids) - 1 - back % max(len(ids), 1) for back in (sources % 3, sources // 3 % 4)] if ids else []
        for source in reach:
            edges.add((source, len(ids)))
        inner = b"".join([bytes([operation]), *(ids[source] for source in reach)])
        ordinal = 0
        while (vertex_id := VertexId(blake2b(inner, digest_size=16, salt=bytes([ordinal])).digest())) in ids:
            ordinal += 1
        ids.append(vertex_id)
    return Model(ids, pack_edges(edges))


def founder(random: random.Random, length: int) -> Genes:
    return tuple(random.randrange(36) for _ in range(length))


def child(random: random.Random, parent: Genes) -> Genes:
    """Change a gene, drop one, or add one at the end."""
    genes = list(parent)
    change = random.randrange(4)
    if change == 0 and len(genes) > 1:
        genes.pop()
    elif change == 1:
        genes.append(random.randrange(36))
    else:
        genes[random.randrange(len(genes))] = random.randrange(36)
    return tuple(genes)
