"""One running evaluation, and its outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from daskevo.runs import Unit
from daskevo.search import Failure, FailureKind, Report, Request
from daskevo_workflows.execution.trainer_tasks import TrainerTask


class EndedTask(NamedTuple):
    """A request that is no longer running: with its report, or None = submit it again."""

    request: Request
    report: Report | None


@dataclass(kw_only=True)
class RunningTask(TrainerTask):
    """One running evaluation.

    Parameters
    ----------
    steps:
        That it trains; None: as many as others.
    chosen:
        When its trainer said that it has chosen an ancestor.
    """

    request: Request
    steps: int | None = None
    unit: Unit
    matches: Any = None
    chosen: float | None = None

    @property
    def number(self) -> int:
        return self.request.number

    def __str__(self) -> str:
        return f"evaluation {self.number}"


def failed(request: Request, kind: FailureKind, message: str, worker: str | None = None) -> Report:
    """Make the report of a request that failed and got no report from its trainer."""
    report = Report(
        request.number, request.model_id, "failed", failure=Failure(kind, message[:2_000]), ended=time.time()
    )
    return replace(report, worker=worker)
