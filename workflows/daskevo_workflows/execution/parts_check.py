"""Check, before a search begins, that its candidates can be trained in parts."""

from __future__ import annotations

from typing import get_args

import numpy as np

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.search import Request, Strategy, model_id
from daskevo.search.continuation import continuing
from daskevo.space import Candidate, ModelSpace
from daskevo.tuning import Unit
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.evaluation.training import fresh
from daskevo_workflows.evaluation.training_part import configuration_of
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.stage_training.begin import check_backend

EPOCH: Unit = "epoch"
TRIED = 100
"""Random candidates that are tried for one that can be built."""


def check_parts(
    strategy: Strategy,
    problem: Problem,
    *,
    unit: Unit | None,
    transfer: Transfer,
    epochs: int | None,
    callbacks: Callbacks,
) -> Unit | None:
    """Return the unit of the parts in which a search trains candidates; None if it trains each in one piece.

    The arguments are those of :func:`daskevo_workflows.nas.search`.

    Raises
    ------
    InvalidInput
        If the strategy continues trainings, and the problem or another argument doesn't go with that.
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
    from daskevo_workflows.stage_training import check
    from daskevo_workflows.stage_training.callbacks import check_callbacks

    check_callbacks(fresh(callbacks))
    candidate = _one_that_is_built(space_of(problem))
    if candidate is not None:
        check(problem, configuration_of(problem, Request(0, model_id("check", 0), candidate), unit))
    return unit


def _one_that_is_built(space: ModelSpace) -> Candidate | None:
    """Return a candidate that the space does not reject; None if none was found."""
    rng = np.random.default_rng(0)
    for _ in range(TRIED):
        try:
            return space.sample(rng)
        except CandidateRejected:
            continue
    return None
