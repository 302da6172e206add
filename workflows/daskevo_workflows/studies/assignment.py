"""What a trainer is told of a work, and what holds for all works of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from daskevo.tuning import Run
from daskevo.types import Objective
from daskevo_workflows.problems.reference import ProblemReference

if TYPE_CHECKING:
    from daskevo.repository import Repository


@dataclass(frozen=True)
class Setting:
    """What all trajectories of one origin begin with.

    Parameters
    ----------
    problem:
        Builds, compiles, has the data and scores.
    repository:
        Handle; it finds its cluster again on the worker.
    seed:
        Initial weights, the order of the data and all chance follow from it.
    objective:
        Its metric must be a finite number.
    label, cache_label:
        What keeps snapshots that somebody needs, and copies against failures.
    cache_s:
        Seconds of training after which a copy against failures is kept; None: none.
    """

    problem: ProblemReference
    repository: Repository
    seed: int
    objective: Objective
    label: str
    cache_label: str
    cache_s: float | None = 120.0


@dataclass(frozen=True)
class StageAssignment:
    """One work: its Dask key, the topic on which it says how far it is, what to do, and for what."""

    key: str
    topic: str
    run: Run
    setting: Setting
