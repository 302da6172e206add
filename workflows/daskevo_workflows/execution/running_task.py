"""One evaluation on its way, and what it has become when it is not any more."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from daskevo.runs import Unit
from daskevo.search import Failure, FailureKind, Report, Request
from daskevo_workflows.execution.trainers import Trainer


class Landed(NamedTuple):
    """A request that is no longer on its way: with its report, or None = submit it again."""

    request: Request
    report: Report | None


@dataclass
class RunningTask:
    """One evaluation on its way; `submitted`, `begun`, `ready` and `chosen` by this process' monotonic clock.

    `is_waiting`: it has been said that its trainer is busy for somebody else.
    """

    request: Request
    unit: Unit
    trainer: Trainer
    future: Any
    matches: Any
    submitted: float
    begun: float | None = None
    ready: float | None = None
    chosen: float | None = None
    is_waiting: bool = False

    @property
    def place(self) -> str:
        return str(self.trainer.name)


def failed(request: Request, kind: FailureKind, message: str, worker: str | None = None) -> Report:
    """Make the report of a request that failed without one from its trainer."""
    report = Report(
        request.number, request.model_id, "failed", failure=Failure(kind, message[:2_000]), ended=time.time()
    )
    return replace(report, worker=worker)
