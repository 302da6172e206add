"""Look up the status of a run's models in its repository, as far as possible."""

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
"""States of models whose weights are gone."""


def look_up(folder: Path, models: Iterable[ModelId], root: Path | None = None) -> dict[ModelId, str]:
    """Return the status of models of the run in a folder: ``published``, ``retired``, ...

    Works without a cluster and reads only their shards. Empty if the repository is missing, was in memory, or can't be
    read: the run itself can still be shown.

    Parameters
    ----------
    root:
        Root of the repository, if it has been moved.
    """
    try:
        there = recorded_root(folder) if root is None else root
        return {} if there is None else dict(standings(there, models))
    except (DaskevoError, OSError):
        return {}


def ask(repository: Repository, models: Iterable[ModelId]) -> dict[ModelId, str]:
    """Return the status of models in an open repository, as far as it answers at once."""
    found: dict[ModelId, str] = {}
    for model_id in models:
        try:
            found[model_id] = repository.status(model_id).state
        except ClusterError:
            break  # the others would have to wait as long
        except DaskevoError:
            continue
    return found


def mark(model_id: ModelId, states: Mapping[ModelId, str]) -> str:
    """Return a mark after a model's name if its weights are gone or missing; empty otherwise, or if not known.

    Examples
    --------
    >>> mark(ModelId("a"), {ModelId("a"): "retired"}), mark(ModelId("b"), {})
    ('  retired', '')
    """
    state = states.get(model_id)
    return "  retired" if state in GONE else "  not in its repository" if state == "unknown" else ""
