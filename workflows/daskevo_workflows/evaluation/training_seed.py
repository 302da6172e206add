"""Seeds for training: they depend on the run's seed, the architecture and the ancestor.

They do not depend on the evaluation's number, its worker, or the step at which a training is interrupted. So training
the same model in the same way gives bit-identical weights at any time and place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.types import VertexId


def trajectory(seed: int, vertex_ids: Sequence[VertexId], ancestor: str | None = None, repeat: int = 0) -> str:
    """Return a name for a training: 32 hexadecimal digits.

    Parameters
    ----------
    seed:
        The run's seed.
    vertex_ids:
        Of the architecture.
    ancestor:
        Name of the training that inherited weights come from; None: weights are initialised.
    repeat:
        Number of the repetition, for evaluations that should differ by chance.
    """
    # Repeat 0 says nothing, so that names are those from before there were repeats.
    digest = hashlib.blake2b(f"{seed} {ancestor or ''} {repeat or ''}".encode(), digest_size=16)
    for vertex_id in vertex_ids:
        digest.update(vertex_id)
    return digest.hexdigest()


def seed_of(name: str) -> int:
    """Return the seed of a training (31 bits)."""
    return int(name[:8], 16) >> 1


def trajectory_of(record: Any) -> str:
    """Return the name of the training that a stored model came from; its id if no run trained it."""
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    return str(extra.get("trajectory") or record.model_id)
