"""Look up the request, training times and settings of models in a run's record."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from daskevo.errors import CorruptRecord
from daskevo.runs import Chosen, RunState, RunView
from daskevo.runs.folder import RunInfo, read_info
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId, Objective


@dataclass(frozen=True)
class ModelOrigin:
    """What a run's record contains about one model.

    Parameters
    ----------
    request, report:
        Its request and report; None if the model is not of this run.
    choices:
        Choice name -> option; None if the record lacks them.
    """

    request: Request | None = None
    report: Report | None = None
    choices: Mapping[str, JSON] | None = None


class Origins:
    """The record of a run, indexed by model id.

    Parameters
    ----------
    folder:
        The run's folder.

    Raises
    ------
    RunFolderUnusable, CorruptRecord
        If it can't be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with RunView(folder) as view:
            self.info: RunInfo = view.info
            requests = {request.number: request for request in view.requests()}
            reports, self._times = view.reports(), view.report_times()
        # Ranked as in the run itself, so that the best here are the best there, ties included.
        goals = Objective.parse_all(self.info.identity["objective"])
        self._run_state = RunState(goals, len(requests), self.info.label)
        self._run_state.ask(requests.values())
        for report in reports:
            self._run_state.report(report)
        self._reports = {report.model_id: report for report in reports if report.status == "finished"}
        self._requests = requests
        self._chosen = Chosen(self.info.identity.get("space"))

    @classmethod
    def at(cls, place: Path) -> Origins | None:
        """Return the record of the run in a folder; None if it holds none, as the root of a repository."""
        return cls(place) if place.is_dir() and read_info(place) is not None else None

    def of(self, model_id: str) -> ModelOrigin:
        """Return what the record contains about a model."""
        report = self._reports.get(model_id)  # type: ignore[call-overload]
        if report is None:
            return ModelOrigin()
        request = self._requests.get(report.number)
        choices = None
        if request is not None:
            # A card without choices is better than none.
            with contextlib.suppress(CorruptRecord):
                choices = self._chosen.of(request)
        return ModelOrigin(request, report, choices)

    def best(self, k: int) -> list[ModelId]:
        """Return the k best models by the first objective, best first, including retired ones."""
        return [report.model_id for report in self._run_state.best(k)]

    def ended(self, model_id: str) -> float | None:
        """Return when a model was put, in seconds since the epoch; None if not known."""
        report = self._reports.get(model_id)  # type: ignore[call-overload]
        if report is None:
            return None
        # By the trainer's clock; without it, the time at which the report came.
        return report.ended or self._times.get(report.number)
