"""Check, before a search begins, that its candidates can be trained in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np

from daskevo.errors import CandidateRejected, DaskevoError, InvalidInput
from daskevo.search import Request, Strategy, model_id
from daskevo.search.continuation import continuing
from daskevo.space import Candidate, ModelSpace
from daskevo.tuning import Unit
from daskevo_workflows.evaluation.failures import user_code
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.evaluation.training import fresh
from daskevo_workflows.evaluation.training_part import configuration_of
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.alarm import Overdue, alarm
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.execution.size_limits import SizeLimits, outside
from daskevo_workflows.problems.building import build_candidate, graph_of, space_of
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.stage_training.begin import check_backend

EPOCH: Unit = "epoch"
DRAWN = 100
"""Random draws, at most, for candidates to look at."""
LOOKED_AT = 8
"""Candidates that are built, at most, until one can be trained in parts."""


def check_parts(
    strategy: Strategy,
    problem: Problem,
    *,
    unit: Unit | None,
    transfer: Transfer,
    epochs: int | None,
    callbacks: Callbacks,
    limits: SizeLimits,
    build_limit_s: float | None,
) -> Unit | None:
    """Return the unit of the parts in which a search trains candidates; None if it trains each in one piece.

    The arguments are those of :func:`daskevo_workflows.nas.search`; `build_limit_s` is the time limit, in seconds, for
    each candidate that is built; None: no limit.

    Raises
    ------
    InvalidInput
        If the strategy continues trainings, and the problem or another argument doesn't go with that.
    InvalidProblem
        If the problem's own code raises with each candidate.
    CannotFlatten
        If no candidate has an architecture graph.
    """
    if unit is not None and unit not in get_args(Unit):
        raise InvalidInput(f"unit={unit!r:.40}: use one of {', '.join(map(repr, get_args(Unit)))}")
    if continuing(strategy) is None:
        if unit is not None:
            raise InvalidInput(f"unit={unit!r}: the strategy {strategy.name!r} trains each candidate in one piece")
        return None
    unit = unit or EPOCH
    whose = f"the strategy {strategy.name!r} says how far each candidate is trained"
    if epochs is not None:
        raise InvalidInput(f"epochs={epochs}: {whose}, so leave it out")
    for name in ("stretch", "unfreeze_epochs"):
        if getattr(transfer, name):
            raise InvalidInput(f"{name}={getattr(transfer, name)} of transfer: {whose}, so leave it out")
    check_backend(problem)
    # Keras and TensorFlow are imported only for strategies that need this.
    import_keras()
    from daskevo_workflows.stage_training.callbacks import check_callbacks

    with user_code("callbacks, the function that makes them,", passing=(DaskevoError,)):
        watching = fresh(callbacks)
    check_callbacks(watching)
    _check_problem(problem, unit, limits, build_limit_s)
    return unit


def _check_problem(problem: Problem, unit: Unit, limits: SizeLimits, build_limit_s: float | None) -> None:
    """Refuse a problem of which no candidate can be trained in parts; the others' failures are for the run to report.

    Raises the error of the first candidate.
    """
    refused: DaskevoError | None = None
    for candidate in _drawn(space_of(problem)):
        try:
            with alarm(build_limit_s):
                if _can_be_trained(problem, candidate, unit, limits):
                    return
        except CandidateRejected:
            continue
        except DaskevoError as error:
            refused = refused or error
        except Overdue:
            continue
    if refused is not None:
        raise refused


def _can_be_trained(problem: Problem, candidate: Candidate, unit: Unit, limits: SizeLimits) -> bool:
    """Return whether a search would train this candidate at all, and check that it can be trained in parts."""
    from daskevo.models import leaving_no_trace, seeded
    from daskevo_workflows.stage_training.compiled import compiled

    with user_code(f"problem {problem.name!r}, looked at for one candidate,", passing=(DaskevoError,)):
        # Without weights: one beyond the limits may be larger than this process' memory.
        if limits and outside(limits, graph_of(problem, candidate)) is not None:
            return False
        configuration = configuration_of(problem, Request(0, model_id("check", 0), candidate), unit)
        with seeded(0), leaving_no_trace():
            made = compiled(problem, configuration, 0, build_candidate(problem, candidate))
        made.warn_of_what_is_not_checked()
    return True


def _drawn(space: ModelSpace) -> Iterator[Candidate]:
    """Draw a few random candidates that the space does not reject."""
    rng, left = np.random.default_rng(0), LOOKED_AT
    for _ in range(DRAWN):
        try:
            yield space.sample(rng)
        except CandidateRejected:
            continue
        if not (left := left - 1):
            return
