"""Layout of the arrays of one scope. Without numba: Python allocates the arrays, compiled code fills them.

``table``   slots of a hash table, vertex id -> node
``nodes``   one row per vertex id that some model has: its id, its posting list, the graph of its best holder
``graphs``  slots of a hash table, set of nodes -> graph
``members`` one row per model: what it is compared by, and its graph
``pool``    blocks of int32 words: graphs, lists that hold more than one value, names of models
``meta``    counts and heads of free lists

A *graph* is a block of the pool: all models with the same set of vertex ids have one, so that a posting list names each
graph once. It is named by its block's number and looks so, in words: HEADER words; its nodes, ascending; for each of
them its position in the node's posting list.

A *list* of values (graphs in a posting list, members of a graph) has ``count`` values and a ``room``, the size class of
its block, which begins at unit ``at``; a list of one value has room -1 and no block: ``at`` is the value itself.
"""

from __future__ import annotations

from typing import Final

import numpy as np

NODE: Final = np.dtype(
    [("high", "u8"), ("low", "u8"), ("at", "i4"), ("count", "i4"), ("room", "i4"), ("best", "i4")], align=True
)
"""32 bytes, two to a cache line. `best`: the graph whose first member is the best of all that hold the vertex."""

MEMBER: Final = np.dtype(
    [
        ("rank", "f8"),
        ("generation", "i8"),
        ("counter", "i8"),
        ("graph", "i4"),
        ("text", "i4"),  # block with the name, big-endian words, so that words compare as the text does
        ("length", "i4"),  # of the name, in bytes
        ("words", "i4"),
    ],
    align=True,
)

UNIT: Final = 4
"""Words of the smallest block; blocks are counted in units, so that an int32 reaches 32 GB."""

LINE: Final = 16
"""Words of a cache line."""

AHEAD: Final = 8
"""Graphs of a posting list whose memory is on its way while one is looked at."""

SCORING_PLACES: Final = 1024
"""Places up to which the table that models are scored by is made larger: 12 kB."""

# Words of a graph's block.
SIZE: Final = 0
MEMBERS_AT: Final = 1
MEMBERS: Final = 2
MEMBERS_ROOM: Final = 3
TAG: Final = 4
HEADER: Final = 5

# Places in `meta`. A free list is headed by what it gives next plus 1; 0 is an empty one.
NODES: Final = 0
NODE_END: Final = 1
NODE_FREE: Final = 2
MODELS: Final = 3
MEMBER_END: Final = 4
MEMBER_FREE: Final = 5
GRAPHS: Final = 6
POOL_END: Final = 7
LACKING: Final = 8
"""Units that `add` found missing."""
BLOCKS_FREE: Final = 9
"""Head of the free blocks of size class 0; those of the other classes follow."""
META: Final = BLOCKS_FREE + 64

MOST_CLOSED: Final = 4096
"""Vertices up to which a query's cones are used: their bit sets grow with the square of it (2 MB there)."""

# What `ask` found.
FOUND: Final = 1
NOTHING: Final = 0
REPEATED: Final = -1
BAD_EDGES: Final = -2
