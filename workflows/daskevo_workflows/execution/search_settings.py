"""Settings of a search."""

from __future__ import annotations

from dataclasses import dataclass, field

from daskevo.tuning import Unit
from daskevo_workflows.evaluation.transfer import USUAL, Transfer
from daskevo_workflows.execution.deadline import At
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.execution.size_limits import SizeLimits
from daskevo_workflows.execution.time_limits import Limit


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search (see :func:`daskevo_workflows.nas.search`)."""

    seed: int = 0
    transfer: Transfer = USUAL
    control_share: float = 0.0
    time_limit_s: float | None = None
    deadline: At = None
    evaluation_limit_s: Limit = "auto"
    recycle_after: int | None = 50
    callbacks: Callbacks = ()
    epochs: int | None = None
    limits: SizeLimits = field(default_factory=dict)
    unit: Unit | None = None
    """Unit of `until_step`, if the strategy trains candidates in parts; None: each is trained in one piece."""
    most_steps: int | None = None
    """Steps after which no training is continued; None: unknown."""
