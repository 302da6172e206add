"""What a trainer is told of one evaluation, and whether it belongs to the control arm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from daskevo.search import Request
from daskevo.types import Objective
from daskevo_workflows.evaluation.transfer import USUAL, Transfer
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.problems.reference import ProblemReference

if TYPE_CHECKING:
    from daskevo.graph import ArchitectureGraph
    from daskevo.repository import Repository


@dataclass(frozen=True)
class EvaluationAssignment:
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
        The run's; initial weights, shuffling and dropout follow from it
        (:mod:`daskevo_workflows.evaluation.training_seed`).
    objective:
        Which metric is the quality.
    others:
        Further objectives, whose metrics must be finite, too.
    graph:
        The candidate's architecture graph.
    transfer:
        How it inherits, if the request does.
    labels:
        What keeps the model alive once it is put.
    callbacks:
        Keras callbacks of the user, besides the problem's own: a list (copied for each evaluation), or what makes one.
    epochs:
        Instead of the problem's; None = those.
    """

    key: str
    request: Request
    problem: ProblemReference
    repository: Repository
    seed: int
    objective: Objective
    graph: ArchitectureGraph
    transfer: Transfer = USUAL
    labels: tuple[str, ...] = ()
    callbacks: Callbacks = ()
    epochs: int | None = None
    others: tuple[Objective, ...] = ()


def in_control_arm(seed: int, number: int, share: float) -> bool:
    """Tell whether a request belongs to the control arm, which inherits nothing: a fixed draw per request."""
    return bool(np.random.default_rng([seed, number, 1]).random() < share)
