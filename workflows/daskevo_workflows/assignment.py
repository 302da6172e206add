"""What a trainer is told of one evaluation, and what is drawn for it: by the run's seed, not by who evaluates it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.search import Request
from daskevo.types import Objective
from daskevo_workflows.problems.reference import ProblemReference
from daskevo_workflows.training import Callbacks

if TYPE_CHECKING:
    from daskevo.graph import ArchitectureGraph
    from daskevo.repository import Repository


@dataclass(frozen=True)
class Assignment:
    """What a trainer is told.

    Parameters
    ----------
    key:
        The Dask key of the evaluation.
    request:
        What to evaluate.
    problem:
        Of the run.
    repository:
        Handle; it finds its cluster again on the worker.
    seed:
        Of this evaluation: for initial weights, shuffling and dropout. Depends on the run's seed and the request's
        number only.
    objective:
        Which metric is the quality.
    freeze:
        Freezing policy, as `Repository.inherit` takes it.
    labels:
        What keeps the model alive once it is put.
    callbacks:
        Keras callbacks of the user, besides the problem's own: a list (copied for each evaluation), or what makes one.
    epochs:
        Instead of the problem's; None = those.
    graph:
        The candidate's architecture graph: what it inherits is reserved while it is built. None = after that.
    """

    key: str
    request: Request
    problem: ProblemReference
    repository: Repository
    seed: int
    objective: Objective
    freeze: Any = "prefix"
    labels: tuple[str, ...] = ()
    callbacks: Callbacks = ()
    epochs: int | None = None
    graph: ArchitectureGraph | None = None


def evaluation_seed(seed: int, number: int) -> int:
    """Return the seed of an evaluation (31 bits): by the run's seed and the request's number, not by the worker."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)


def in_control_arm(seed: int, number: int, share: float) -> bool:
    """Tell whether a request belongs to the control arm, which inherits nothing: a fixed draw per request."""
    return bool(np.random.default_rng([seed, number, 1]).random() < share)
