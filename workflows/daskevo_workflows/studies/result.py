"""What a study hands back: the best trials, its figures as a table and as one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from daskevo.errors import RunError
from daskevo.runs import RunState
from daskevo.search import Report, Request
from daskevo.space import Candidate
from daskevo.tuning import Configuration, ConfigurationSpace, Trajectory
from daskevo.types import JSON, Objective
from daskevo_workflows.studies.accounts import Figures, summary
from daskevo_workflows.studies.trial_lines import Line


class StudySource(Protocol):
    """A study as its result sees it: one that is open, or one that has ended, from its record."""

    folder: Path
    repository: Any
    space: ConfigurationSpace
    objective: Objective
    origin: str

    def line(self, request: Request) -> Line:
        """Return a request's trial."""

    def snapshot(self, trajectory: Trajectory, step: int) -> str | None:
        """Return the name of a state's snapshot; None if there is none."""

    def read(self, result: StudyResult, prefix: str) -> None:
        """Fill in a result's requests, reports and figures."""


@dataclass(frozen=True)
class FoundTrial:
    """One of the best trials; handed to `Study.submit` it goes on.

    Parameters
    ----------
    quality, metrics, step:
        As reported.
    candidate, configuration, choices:
        The point of the space, what it was trained with, and as choice name -> option.
    request:
        What was asked for.
    study:
        Of which study.
    trial:
        The name of its trial, as in the report and in `StudyResult.frame`.
    """

    quality: float
    metrics: Mapping[str, float]
    step: int
    candidate: Candidate
    configuration: Configuration
    choices: Mapping[str, JSON]
    request: Request
    study: StudySource
    trial: str

    @property
    def snapshot(self) -> str | None:
        """The name of its snapshot, once it is stored; None if the repository has none any more."""
        return self.study.snapshot(Trajectory(self.study.origin, self.configuration), self.step)

    @cached_property
    def model(self) -> Any:
        """The trained keras.Model, weights in place, uncompiled.

        Raises
        ------
        RunError
            If there is no snapshot of it, or it isn't of a Keras model.
        """
        from daskevo.models import rebuild_flat, write_tensors

        name = self.snapshot
        stored = None if name is None else self.study.repository.read_snapshot(name)
        if stored is None or stored.graph is None:
            raise RunError(f"there is no Keras model stored of this trial at step {self.step}: evaluate it again")
        rebuilt = rebuild_flat(stored.graph, stored_as=name)
        write_tensors(rebuilt.flat, dict(enumerate(stored.weights)))
        return rebuilt.model


class StudyResult:
    """What came of a strategy, or of a study.

    Parameters
    ----------
    study:
        Whose.
    prefix:
        What the model ids of its requests begin with.
    stop:
        Why it ended: a word (``finished``, ``exhausted``, ``failures``, ``time limit``, ``walltime``) and a sentence.

    Attributes
    ----------
    figures:
        Of the whole study, when this was made.
    """

    def __init__(self, study: StudySource, prefix: str, stop: tuple[str, str]) -> None:
        self.study = study
        self.stop = stop
        self.requests: list[Request]
        self.reports: list[Report]
        self.figures: Figures
        self.runtime_s: float
        study.read(self, prefix)
        self._run_state = RunState(study.objective, 1, prefix)
        self._run_state.ask(self.requests)
        for report in self.reports:
            self._run_state.report(report)

    def best(self, k: int = 1) -> list[FoundTrial]:
        """Return the k best answers, best first; of equal ones the earlier leads. A trial may be there several times.

        Raises
        ------
        RunError
            If nothing has finished.
        """
        reports = self._run_state.best(k)
        if not reports:
            why = f" ({self.stop[1]})" if self.stop[1] else ""
            raise RunError(f"no trial of the study in {self.study.folder} has finished{why}")
        return [self._found(report) for report in reports]

    def _found(self, report: Report) -> FoundTrial:
        request = self._run_state.requests[report.number]
        assert report.quality is not None
        trial = self.study.line(request).trial
        return FoundTrial(
            report.quality,
            report.metrics,
            report.step,
            request.candidate,
            trial.configuration,
            self.study.space.values(request.candidate),  # type: ignore[attr-defined]
            request,
            self.study,
            trial.name,
        )

    def frame(self) -> Any:
        """Return a pandas DataFrame with one row per request: trial, steps, outcome, metrics, hyper-parameters."""
        import pandas as pd

        reports = self._run_state.reports
        rows: list[dict[str, Any]] = []
        for request in self.requests:
            report = reports.get(request.number)
            row: dict[str, Any] = {
                "number": request.number,
                "trial": self.study.line(request).trial.name,
                "continues": request.continues,
                "until_step": request.until_step,
                "status": "pending" if report is None else report.status,
            }
            if report is not None:
                row |= {"quality": report.quality, "started": report.started, "ended": report.ended}
                row |= {f"metric:{name}": value for name, value in report.metrics.items()}
                row["reason"] = None if report.failure is None else report.failure.message
            values = self.study.space.values(request.candidate)  # type: ignore[attr-defined]
            row |= {f"choice:{name}": option for name, option in values.items()}
            rows.append(row)
        return pd.DataFrame(rows)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report of the whole study, one HTML file readable offline; return its path.

        Parameters
        ----------
        path:
            In the run's folder if None.
        """
        from daskevo_workflows.reports import write_report

        return write_report(self.study.folder, output=None if path is None else Path(path))

    def summary(self) -> dict[str, Any]:
        """Return the study's figures for programs, as ``daskevo tune --json`` ends with them."""
        best = None
        if self._run_state.best(1):
            (found,) = self.best()
            best = {
                "quality": found.quality,
                "step": found.step,
                "hyperparameters": dict(found.choices),
                "snapshot": found.snapshot,
            }
        return summary(self.figures, self.runtime_s, best)
