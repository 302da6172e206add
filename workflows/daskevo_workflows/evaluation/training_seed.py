"""What a training's random numbers depend on: the run's seed, the architecture, and what it inherits from.

Never the number of the evaluation, its worker, or the step at which a training is cut: so the same model trained in the
same way is the same model, bit for bit, whenever and wherever that is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.types import VertexId


def trajectory(seed: int, vertex_ids: Sequence[VertexId], ancestor: str | None = None, repeat: int = 0) -> str:
    """Name a training, by 32 hexadecimal digits.

    Parameters
    ----------
    seed:
        The run's.
    vertex_ids:
        Of the architecture.
    ancestor:
        Name of the training that inherited weights come from; None: weights are drawn.
    repeat:
        Of the request: evaluations that are to differ by chance.
    """
    digest = hashlib.blake2b(f"{seed} {ancestor or ''} {repeat or ''}".encode(), digest_size=16)
    for vertex_id in vertex_ids:
        digest.update(vertex_id)
    return digest.hexdigest()


def seed_of(name: str) -> int:
    """Return the seed of a training (31 bits)."""
    return int(name[:8], 16) >> 1


def trajectory_of(record: Any) -> str:
    """Return the name of the training that a stored model came from; one that no run trained has its id."""
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    return str(extra.get("trajectory") or record.model_id)
