"""The message to a trainer about one evaluation, and the choice of the control arm."""

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
    from daskevo.tuning import Unit


@dataclass(frozen=True)
class EvaluationAssignment:
    """Everything a trainer needs for one evaluation.

    Parameters
    ----------
    key:
        The Dask key of the evaluation.
    topic:
        The Dask topic on which it says how far it is.
    request:
        The candidate to evaluate.
    problem:
        The run's problem.
    repository:
        A handle; it connects to its cluster again on the worker.
    seed:
        The run's seed; initial weights, shuffling and dropout follow from it
        (:mod:`daskevo_workflows.evaluation.training_seed`).
    objective:
        The metric that is the quality.
    others:
        Further objectives, whose metrics must be finite too.
    graph:
        The candidate's architecture graph.
    transfer:
        How to inherit, if the request allows it.
    labels:
        Labels that keep the model once it is put.
    callbacks:
        The user's Keras callbacks besides the problem's own: a list (copied per evaluation), or a function that makes
        one.
    epochs:
        Epochs instead of the problem's; None = the problem's.
    rows:
        Data keys of the data that may be trained with; none: any.
    unit:
        Unit of the request's `until_step` in a run that trains candidates in parts; None: each is trained in one piece.
    keeps_state:
        Whether to store the state at the end of a part, from which another request may continue.
    """

    key: str
    request: Request
    problem: ProblemReference
    repository: Repository
    seed: int
    objective: Objective
    graph: ArchitectureGraph
    topic: str = ""
    transfer: Transfer = USUAL
    labels: tuple[str, ...] = ()
    callbacks: Callbacks = ()
    epochs: int | None = None
    rows: tuple[str, ...] = ()
    others: tuple[Objective, ...] = ()
    unit: Unit | None = None
    keeps_state: bool = True


def in_control_arm(seed: int, number: int, share: float) -> bool:
    """Tell whether a request belongs to the control arm, which inherits nothing; a fixed draw per request."""
    # The 1 keeps these draws apart from others that begin with the same two numbers.
    return bool(np.random.default_rng([seed, number, 1]).random() < share)
