"""The result of a search, and its best models: figures from the record, weights while the repository has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daskevo.errors import DaskevoError, InvalidInput, ModelRetired, RunError, RunFailed
from daskevo.runs import Chosen, RunState, RunView
from daskevo.search import Report, Request, TransferReport
from daskevo.space import Candidate
from daskevo.types import JSON, ModelId, Objective
from daskevo_workflows.execution.event_kinds import STORAGE
from daskevo_workflows.reports.recorded import Recorded
from daskevo_workflows.reports.run_reader import series_of
from daskevo_workflows.reports.series import REPOSITORY_PHASES
from daskevo_workflows.results.frames import as_frame, rows_of
from daskevo_workflows.results.model_status import GONE, ask, look_up

if TYPE_CHECKING:
    import keras
    import pandas as pd

    from daskevo.protocol.model_record import ModelRecord
    from daskevo.repository import Repository
    from daskevo_workflows.exporting import Card, Exported


@dataclass(frozen=True)
class Found:
    """One of the best models.

    Parameters
    ----------
    model_id, quality, metrics, step:
        As reported.
    candidate, choices:
        The candidate, and its options as choice name -> option.
    result:
        The run that it belongs to.
    transfer:
        What it inherited, and why no more; None in older records.
    """

    model_id: ModelId
    quality: float
    metrics: Mapping[str, float]
    step: int
    candidate: Candidate
    choices: Mapping[str, JSON]
    result: Result
    transfer: TransferReport | None = None

    @cached_property
    def model(self) -> keras.Model:
        """The trained keras.Model with its weights, loaded at first use.

        Raises
        ------
        ModelRetired
            If its weights are gone: ``result.best(k, living=True)`` leaves such models out.
        ModelLost
        """
        try:
            return self.result.repository.load(self.model_id)
        except ModelRetired as error:
            raise ModelRetired(
                f"{self.model_id!r} of the run in {self.result.folder} has been retired, and its weights are gone. Its "
                "figures stay in the run's record; result.best(k, living=True) leaves such models out",
                model_id=self.model_id,
            ) from error

    @property
    def state(self) -> str | None:
        """Its status in the repository: ``published``, ``retired``, ...; None if that can't be looked up."""
        return self.result.standings([self.model_id]).get(self.model_id)

    @cached_property
    def lineage(self) -> Sequence[ModelRecord]:
        """Its ancestors, nearest first (`Repository.lineage`)."""
        return self.result.repository.lineage(self.model_id)

    def export(self, path: str | Path, *, overwrite: bool = False, data: Any = None) -> Exported:
        """Write it as a ``.keras``, ``.weights.h5`` or ``.safetensors`` file, with a model card.

        Parameters and errors are those of :func:`daskevo_workflows.exporting.export_model`.
        """
        from daskevo_workflows.exporting import export_model

        found = self.result
        return export_model(found.repository, self.model_id, path, run=found.folder, overwrite=overwrite, data=data)

    @cached_property
    def card(self) -> Card:
        """Its model card, for ``print(found.card)`` and ``found.card.facts``.

        Raises
        ------
        ModelRetired
        """
        from daskevo_workflows.exporting import model_card

        return model_card(self.result.repository, self.model_id, run=self.result.folder)

    def __repr__(self) -> str:
        others = "".join(f", {one.metric}={self.metrics.get(one.metric):.6g}" for one in self.result.objectives[1:])
        return f"Found({self.model_id!r}, {self.result.objective.metric}={self.quality:.4f}{others}, step={self.step})"


class Result:
    """A finished, stopped or resumed search.

    Parameters
    ----------
    folder:
        The run's folder.
    repository:
        Its repository, or a function that opens it when needed.
    stop:
        Reason for the end: a word (``finished``, ``exhausted``, ``failures``, ``time limit``, ``walltime``) and a
        sentence.
    root:
        Root of its repository, if it has been moved.
    """

    def __init__(
        self,
        folder: str | Path,
        repository: Repository | Callable[[], Repository],
        stop: tuple[str, str] = ("", ""),
        root: Path | None = None,
    ) -> None:
        self.folder = Path(folder)
        self._repository = repository
        self._root = root
        self.stop = stop
        self._read()

    @cached_property
    def repository(self) -> Repository:
        """The repository with the run's models.

        Raises
        ------
        RootUnusable
            If it was in memory, or is no longer at the recorded place.
        """
        return self._repository() if callable(self._repository) else self._repository

    def _read(self) -> None:
        with RunView(self.folder) as view, view.still():
            # Within `still`: a run that is going on writes between two queries.
            recorded, self._population = Recorded.of(view), view.population()
        self.info, self.runtime_s = recorded.info, recorded.runtime_s
        self.units, self.events, self.sessions = recorded.units, recorded.events, recorded.sessions
        self.requests, self.reports, self._times = recorded.requests, recorded.reports, recorded.times
        self.storage = recorded.of_kind(STORAGE)
        self.series = series_of(recorded)
        self.objectives = Objective.parse_all(self.info.identity["objective"])
        self.objective = self.objectives[0]
        self._chosen = Chosen(self.info.identity["space"])
        # Only for ranking and counts: nothing is asked for any more, so the budget is what there is.
        self._run_state = RunState(self.objectives, len(self.requests), self.info.label)
        self._run_state.ask(self.requests)
        for report in self.reports:
            self._run_state.report(report)

    def check_finished(self) -> None:
        """Check that an evaluation finished, unless the run ended because of its time.

        Raises
        ------
        RunFailed
        """
        # A session that was too short for an evaluation is no failed run: the next one goes on.
        if not self._run_state.counts["finished"] and self.stop[0] not in ("time limit", "walltime"):
            raise RunFailed(
                f"the run in {self.folder} ended with nothing finished: {self.stop[1]}",
                path=str(self.folder),
                reason=self.stop[0],
            )

    @property
    def last_report(self) -> float:
        """Time of the last report, in seconds since the epoch; 0 if there was none."""
        return max(self._times.values(), default=0.0)

    def standings(self, models: Iterable[ModelId]) -> dict[ModelId, str]:
        """Return the status of models (as in `Repository.status`), without those that can't be looked up."""
        if not callable(self._repository):
            return ask(self._repository, models)
        # The repository isn't opened for this: only the shards of these models are read.
        return look_up(self.folder, models, self._root)

    def best(self, k: int = 1, *, living: bool = False) -> list[Found]:
        """Return the k best finished evaluations by the first objective, best first, ties by the earlier report.

        The run keeps its best models in the repository (`keep_best` of the search). Others may have been retired, and
        any may be retired by hand (``daskevo models retire --force``). Their figures are still returned, their `.state`
        is ``retired``, and their `.model` raises :class:`daskevo.errors.ModelRetired`.

        Parameters
        ----------
        living:
            Leave out retired models.

        Raises
        ------
        InvalidInput
            If `k` is not a valid number.
        RunError
            If no evaluation has finished.
        """
        if not isinstance(k, int) or k < 1:
            raise InvalidInput(f"k={k!r} is no number of models: 1 or more of the best can be had")
        # Without a finished evaluation, the error below says so.
        if living and self._run_state.best(1):
            return self._living(k)
        reports = self._run_state.best(k)
        if not reports:
            raise RunError(
                f"no evaluation of the run in {self.folder} has finished "
                f"({self.stop[1] or 'it has not been carried on'})",
                path=str(self.folder),
            )
        return [self._found(report) for report in reports]

    def _living(self, k: int) -> list[Found]:
        found: list[Found] = []
        ranked = self._run_state.best()
        # In groups of k: each look-up reads shards, and nearly all of the best live.
        for begin in range(0, len(ranked), k):
            some = ranked[begin : begin + k]
            states = self.standings([report.model_id for report in some])
            found += [self._found(report) for report in some if states.get(report.model_id) not in GONE]
            if len(found) >= k:
                break
        return found[:k]

    def front(self) -> list[Found]:
        """Return the finished evaluations that no other dominates (nowhere worse, somewhere better).

        Best first by the first objective; with one objective, those of the best quality. The run keeps up to
        `keep_best` of their models in the repository; others may have been retired, and then their `.model` raises.
        """
        return [self._found(report) for report in self._run_state.front()]

    def choices(self, request: Request) -> Mapping[str, JSON]:
        """Return a request's candidate as choice name -> option; empty if an older record lacks it."""
        try:
            return self._chosen.of(request)
        except DaskevoError:
            return {}

    def _found(self, report: Report) -> Found:
        request = self._run_state.requests[report.number]
        assert report.quality is not None
        return Found(
            report.model_id,
            report.quality,
            report.metrics,
            report.step,
            request.candidate,
            self.choices(request),
            self,
            report.transfer,
        )

    def frame(self, of: str = "evaluations") -> pd.DataFrame:
        """Return a pandas DataFrame of the run, with the columns described in docs/results.md.

        Parameters
        ----------
        of:
            ``evaluations``: a row per request, with candidate, outcome, lineage, seconds by phase, bytes; ``units``: a
            row per unit of work, with times, trainer, waiting time, seconds by phase; ``models``: a row per model, with
            lineage, bytes, and its status in the repository; ``events``: other events.

        Raises
        ------
        InvalidInput
            If pandas is not installed, or there is no such frame.
        """
        return as_frame(rows_of(self, of))

    def figures(self, folder: str | Path | None = None, *, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
        """Write the figures of paper 000 for this run; return the files (:func:`daskevo_workflows.nas.figures`).

        Parameters
        ----------
        folder:
            Default: ``figures`` in the run's folder.
        """
        from daskevo_workflows.reports import write_figures

        return write_figures(
            [self.folder], self.folder / "figures" if folder is None else Path(folder), formats=formats
        )

    def report(
        self, path: str | Path | None = None, *, compare: str | Path | Sequence[str | Path] | None = None
    ) -> Path:
        """Write the run's report as one HTML file that needs no network; return its path.

        Parameters
        ----------
        path:
            Default: in the run's folder.
        compare:
            Folders of other runs to compare with: the control arm, other seeds.
        """
        from daskevo_workflows.reports import write_report

        others = () if compare is None else [compare] if isinstance(compare, (str, Path)) else compare
        return write_report(self.folder, *map(Path, others), output=None if path is None else Path(path))

    def population(self) -> list[ModelId]:
        """Return the models of the strategy's population as last recorded."""
        return list(self._population)

    def summary(self) -> dict[str, Any]:
        """Return the run's figures as a dict.

        ``repository_s`` and ``evaluation_s`` are sums over trainers, in seconds; ``stored_bytes`` are the tensors of
        the published models, ``full_copy_bytes`` what full copies would take.
        """
        finished = [report for report in self.reports if report.status == "finished"]
        best = self._run_state.best(1)
        storage = self.storage[-1].facts if self.storage else {}
        return {
            "evaluations": len(finished),
            "failures": self._run_state.failures,
            "rejected": self._run_state.rejected,
            "duplicates": self._run_state.counts["duplicate"],
            "best_quality": best[0].quality if best else None,
            "best_model": best[0].model_id if best else None,
            "transferred": sum(report.transferred for report in finished),
            "mean_frozen_share": self._run_state.mean_frozen_share,
            "runtime_s": self.runtime_s,
            "evaluation_s": sum((report.ended or 0) - (report.started or 0) for report in finished),
            "repository_s": sum(report.seconds.get(phase, 0.0) for report in finished for phase in REPOSITORY_PHASES),
            "stored_bytes": storage.get("stored_bytes"),
            "full_copy_bytes": storage.get("full_copy_bytes"),
            "live_models": storage.get("live_models"),
            "population": len(self.population()),
        }
