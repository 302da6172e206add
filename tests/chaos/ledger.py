"""The ledger of a trial, outside of the cluster: every put that was answered as stored, every retirement.

As a Dask preload of trainers it notes what the caller of `put` is told, with a digest of each tensor as the caller has
it. A line is written with one call, so that whoever is killed leaves whole lines.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

LEDGER = "DASKEVO_CHAOS_LEDGER"
"""Environment variable: the ledger's path."""


@dataclass
class Ledger:
    """What a ledger says.

    Parameters
    ----------
    stored:
        By model: for each caller who was told that its own tensors are stored, their digests by number. Who is told
        that another run of the task has stored it does not know that one's tensors.
    retired:
        Models that were retired by order of somebody who had the answer.
    asked:
        Those whose retirement was ordered, answered or not.
    """

    stored: dict[str, list[list[str]]] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)


def digest(array: Any) -> str:
    """Return a digest of type, shape and bytes, by other means than the repository's."""
    plain = np.ascontiguousarray(array)
    found = hashlib.blake2b(f"{plain.dtype} {plain.shape} ".encode(), digest_size=16)
    found.update(plain.tobytes())
    return found.hexdigest()


def digests(arrays: Iterable[Any]) -> list[str]:
    """Return the digests of a model's tensors, in the order of tensor numbers."""
    return [digest(array) for array in arrays]


def note(path: str | Path, **facts: Any) -> None:
    """Append a line."""
    line = json.dumps({"time": time.time(), **facts}).encode() + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read(path: Path) -> Ledger:
    """Return what a ledger says; one that was never written says nothing."""
    ledger = Ledger()
    for line in path.read_text().splitlines() if path.exists() else ():
        facts: Mapping[str, Any] = json.loads(line)
        name = facts["model"]
        if facts["what"] == "stored":
            known = ledger.stored.setdefault(name, [])
            if facts["tensors"] is not None:
                known.append(facts["tensors"])
        else:
            ledger.asked.add(name)
            if facts["what"] == "retired":
                ledger.retired.add(name)
    return ledger


def dask_setup(worker: Any) -> None:
    """Have every put of this process noted; the worker's preload."""
    from daskevo.repository.inheritance import Inheritance

    Inheritance.put = _noting(Inheritance.put, os.environ[LEDGER])  # type: ignore[method-assign]


def _noting(put: Any, path: str) -> Any:
    @functools.wraps(put)
    def noted(child: Any, **arguments: Any) -> Any:
        from daskevo.models import read_tensors

        model_id = put(child, **arguments)
        tensors = None if child.by_other else digests(read_tensors(child.flat))
        note(path, what="stored", model=model_id, tensors=tensors)
        return model_id

    return noted
