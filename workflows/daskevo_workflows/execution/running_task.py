"""One running evaluation, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from daskevo.runs import Unit
from daskevo.search import Failure, FailureKind, Report, Request
from daskevo_workflows.execution.trainers import Trainer


class EndedTask(NamedTuple):
    """A request that is no longer running: with its report, or None = submit it again."""

    request: Request
    report: Report | None


@dataclass
class RunningTask:
    """One running evaluation; `submitted`, `begun`, `ready`, `chosen` and `over` by this process' monotonic clock.

    `is_waiting`: a warning said that its trainer is busy with another client's tasks.
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
    over: float | None = None
    is_waiting: bool = False

    def hear(self, message: Mapping[str, Any]) -> None:
        """Note how far it is, as its trainer says."""
        if message["what"] in ("begun", "ready", "chosen", "over"):
            setattr(self, message["what"], time.monotonic())

    def release_matches(self) -> None:
        """Release the answer of its batch's query: Dask would ask again if a trainer was ended with the only copy."""
        if self.matches is not None and self.matches.done():
            self.matches.release()

    @property
    def is_running(self) -> bool:
        """Whether its trainer has begun it and has not said that it is over; cancelled, it goes on until it notices."""
        return self.begun is not None and self.over is None

    @property
    def place(self) -> str:
        return str(self.trainer.name)


def failed(request: Request, kind: FailureKind, message: str, worker: str | None = None) -> Report:
    """Make the report of a request that failed and got no report from its trainer."""
    report = Report(
        request.number, request.model_id, "failed", failure=Failure(kind, message[:2_000]), ended=time.time()
    )
    return replace(report, worker=worker)
