"""Where models of a run stand in its repository, as far as that can be looked up; in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from daskevo.errors import ClusterError, DaskevoError
from daskevo.offline.model_states import standings
from daskevo.types import ModelId
from daskevo_workflows.results.run_root import recorded_root

if TYPE_CHECKING:
    from daskevo.repository import Repository

GONE = ("retiring", "retired")
"""States of a model whose weights can't be had any more."""


def look_up(folder: Path, models: Iterable[ModelId], root: Path | None = None) -> dict[ModelId, str]:
    """Return where models of the run in a folder stand: ``published``, ``retired``, ...

    Without a cluster, and of the repository only their shards are read. Empty where it is not there, was in memory, or
    can't be read: a run is told of all the same.

    Parameters
    ----------
    root:
        Of the repository, if it is not where the run had it.
    """
    try:
        there = recorded_root(folder) if root is None else root
        return {} if there is None else dict(standings(there, models))
    except (DaskevoError, OSError):
        return {}


def ask(repository: Repository, models: Iterable[ModelId]) -> dict[ModelId, str]:
    """Return where models stand in a repository that is open, as far as it answers at once."""
    found: dict[ModelId, str] = {}
    for model_id in models:
        try:
            found[model_id] = repository.status(model_id).state
        except ClusterError:
            break  # the others would be waited for as long
        except DaskevoError:
            continue
    return found


def mark(model_id: ModelId, states: Mapping[ModelId, str]) -> str:
    """Say after a model's name that its weights are gone, or were never there; nothing where they are, or nobody knows.

    Examples
    --------
    >>> mark(ModelId("a"), {ModelId("a"): "retired"}), mark(ModelId("b"), {})
    ('  retired', '')
    """
    state = states.get(model_id)
    return "  retired" if state in GONE else "  not in its repository" if state == "unknown" else ""
