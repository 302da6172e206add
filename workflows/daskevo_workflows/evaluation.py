"""One evaluation, as it runs on a trainer: build, inherit, freeze, train, score, put.

Everything it needs comes with the assignment, everything it finds goes into its report; what user code raises is a
failed report, not a failed task. A task that is run again after its put finds its model and trains nothing.
"""

from __future__ import annotations

import difflib
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.catalogue import Match
from daskevo.errors import (
    CannotFlatten,
    CannotRebuild,
    ClusterError,
    InvalidProblem,
    ModelExists,
    PutFailed,
    QuotaReached,
    RepositoryError,
    UnknownProblem,
)
from daskevo.search import BEST_MATCH, Failure, FailureKind, Report, Request
from daskevo.store.files import FULL
from daskevo.types import JSON, Objective
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.problems.reference import ProblemReference, data_of
from daskevo_workflows.quiet import import_keras
from daskevo_workflows.training import Callbacks, Stopped, Stopwatch, finite, train

if TYPE_CHECKING:
    from daskevo.graph import ArchitectureGraph
    from daskevo.repository import Repository

EVENTS = "daskevo-evaluations"
"""Dask topic on which trainers say that an evaluation has begun, has its data, or has chosen its ancestor."""


@dataclass(frozen=True)
class Assignment:
    """What a trainer is told.

    Parameters
    ----------
    key:
        The Dask key of the evaluation.
    request:
        What to evaluate.
    problem:
        Of the run.
    repository:
        Handle; it finds its cluster again on the worker.
    seed:
        Of this evaluation: for initial weights, shuffling and dropout. Depends on the run's seed and the request's
        number only.
    objective:
        Which metric is the quality.
    freeze:
        Freezing policy, as `Repository.inherit` takes it.
    labels:
        What keeps the model alive once it is put.
    callbacks:
        Keras callbacks of the user, besides the problem's own: a list (copied for each evaluation), or what makes one.
    epochs:
        Instead of the problem's; None = those.
    graph:
        The candidate's architecture graph: what it inherits is reserved while it is built. None = after that.
    """

    key: str
    request: Request
    problem: ProblemReference
    repository: Repository
    seed: int
    objective: Objective
    freeze: Any = "prefix"
    labels: tuple[str, ...] = ()
    callbacks: Callbacks = ()
    epochs: int | None = None
    graph: ArchitectureGraph | None = None


class Failed(Exception):
    """An evaluation can't go on; `kind` says why."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Progress(Stopwatch):
    """What is known of an evaluation so far: what its report will be made of."""

    def __init__(self) -> None:
        super().__init__()
        self.started = time.time()
        self.fields: dict[str, Any] = {}


def evaluate(assignment: Assignment, matches: Sequence[Match | None] | None = None, index: int = 0) -> Report:
    """Evaluate one request.

    Parameters
    ----------
    assignment:
        What to do.
    matches:
        Answers of the batch's query, or None: then the repository is asked from here.
    index:
        Which of them is this request's.

    Returns
    -------
    Report
        Finished or failed. Cancelled, the task raises :class:`Stopped`.
    """
    try:
        return _reported(assignment, matches, index)
    finally:
        if _cancelled(assignment.key):
            # Who gave it up keeps its slot out of use until now, if nobody could end this process.
            _say(assignment.key, "over")


def _reported(assignment: Assignment, matches: Sequence[Match | None] | None, index: int) -> Report:
    request, progress = assignment.request, _Progress()
    try:
        _say(assignment.key, "begun")
        found = _evaluate(assignment, None if matches is None else matches[index], progress)
    except Stopped:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too, and the search goes on
        # Passed on, anything beyond Exception would end the worker, and say nothing.
        trace = "" if isinstance(error, Failed) else _trace(error)
        ours = isinstance(error, (Failed, InvalidProblem, UnknownProblem))  # said in full already
        failure = Failure(_kind(error), str(error)[:2_000] if ours else say_error(error)[:2_000], trace)
        found = {"status": "failed", "failure": failure}
    report = {
        "number": request.number,
        "model_id": request.model_id,
        "seconds": {name: round(seconds, 6) for name, seconds in progress.seconds.items()},
        "worker": _worker_name(),
        "started": progress.started,
        "ended": time.time(),
        **progress.fields,
        **found,
    }
    return Report(**report)


def _evaluate(assignment: Assignment, match: Match | None, progress: _Progress) -> Mapping[str, Any]:
    with progress.phase("prepare"):
        import_keras()
        from daskevo.models import seeded

        problem = assignment.problem.load()
        data = _data(assignment.problem, problem)
    _say(assignment.key, "ready")
    with seeded(assignment.seed):
        return _trained(assignment, problem, data, match, progress)


def _trained(
    assignment: Assignment, problem: Problem, data: Any, match: Match | None, progress: _Progress
) -> Mapping[str, Any]:
    request, repository = assignment.request, assignment.repository
    ancestor: Any = False
    if request.transfer:
        ancestor = None if request.ancestor == BEST_MATCH else request.ancestor or False
    wish: dict[str, Any] = {"ancestor": ancestor, "model_id": request.model_id, "match": match}
    with ExitStack() as stack:
        if assignment.graph is not None:
            with progress.phase("inherit"):
                wish = {"reserved": stack.enter_context(repository.reserve(assignment.graph, **wish))}
        model = _build(problem, request, progress)
        with progress.phase("inherit"):
            try:
                child = stack.enter_context(
                    repository.inherit(model, freeze=assignment.freeze, parent=request.parent, **wish)
                )
            except ModelExists as error:
                # This task was run before, and died or was lost after its put.
                if (other := other_candidate(error.record, request)) is not None:
                    raise Failed("repository", other) from error
                return _of_record(error.record)
        _say(assignment.key, "chosen")
        _note(child, progress)
        metrics, steps = train(
            problem,
            model,
            data,
            progress,
            epochs=assignment.epochs,
            until_step=request.until_step,
            callbacks=assignment.callbacks,
            cancelled=lambda: _cancelled(assignment.key),
        )
        quality = _quality(assignment.objective, metrics)
        progress.fields.update(step=steps, metrics=finite(metrics))
        if quality is None:
            found = _shown(metrics[assignment.objective.metric])
            raise Failed("not finite", f"the quality {assignment.objective.metric!r} is {found}, not a finite number")
        extra = {"report": _put_report(progress), "candidate": request.candidate.to_json()}
        with progress.phase("put"):
            child.put(metrics=finite(metrics), step=steps, labels=list(assignment.labels), extra=extra)
        return {"status": "finished", "quality": quality, "own_bytes": _own_bytes(child.record)}


def _build(problem: Problem, request: Request, progress: _Progress) -> Any:
    with progress.phase("build"):
        try:
            return problem.build(problem.space().values(request.candidate))
        except Stopped:
            raise
        except BaseException as error:
            raise Failed("build", f"build() raised {say_error(error)}") from error


def _data(reference: ProblemReference, problem: Problem) -> Any:
    """Return the problem's data.

    Raises
    ------
    InvalidProblem
        If there is none to be had: no candidate would fare better.
    """
    try:
        data = data_of(reference)
        (_, _), (_, _) = data.train, data.validation
    except Stopped:
        raise
    except BaseException as error:
        raise InvalidProblem(
            f"problem {problem.name!r} has no data on {_worker_name() or 'this process'}: data() must return "
            f"Data(train=(x, y), validation=(x, y)), and there was {say_error(error)}"
        ) from error
    return data


def _quality(objective: Objective, metrics: dict[str, Any]) -> float | None:
    """Return the finite quality, or None.

    Raises
    ------
    InvalidProblem
        If there is no metric of that name: no candidate would fare better.
    """
    if objective.metric in metrics:
        return objective.quality(metrics)
    names = sorted(map(str, metrics))
    meant = difflib.get_close_matches(objective.metric, names, 1)
    to_do = f"did you mean '{objective.direction} {meant[0]}'?" if meant else "name one, or let score() return it"
    raise InvalidProblem(
        f"the objective is {str(objective)!r}, and neither score() nor training gave a metric {objective.metric!r}; "
        f"they gave {', '.join(names) or 'none'}: {to_do}"
    )


def _note(child: Any, progress: _Progress) -> None:
    """Take the query's share out of the time to inherit, and note what was inherited."""
    # Of what was waited for: the match comes before the reservation, and both may have come while the model was built.
    query = max(0.0, float(child.timings["wait_s"]) - float(child.timings.get("reserve_s", 0.0)))
    progress.seconds["query"] = query
    progress.seconds["inherit"] = max(0.0, progress.seconds["inherit"] - query)
    inherited = child.report.inherited_tensors > 0
    progress.fields.update(
        # A prefix without weights, such as an input, is no inheritance.
        ancestor=child.ancestor if inherited else None,
        prefix=len(child.prefix.vertices),
        vertices=len(child.graph.vertices),
        frozen_share=float(child.frozen_share),
        parameters=int(child.graph.parameters),
        full_bytes=int(child.graph.nbytes),
    )


def evaluation_seed(seed: int, number: int) -> int:
    """Return the seed of an evaluation (31 bits): by the run's seed and the request's number, not by the worker."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1)[0] >> 1)


def in_control_arm(seed: int, number: int, share: float) -> bool:
    """Tell whether a request belongs to the control arm, which inherits nothing: a fixed draw per request."""
    return bool(np.random.default_rng([seed, number, 1]).random() < share)


def other_candidate(record: Any, request: Request) -> str | None:
    """Say why the model of that name is not what a request asked for; None if it is."""
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    found, asked = extra.get("candidate"), request.candidate.to_json()
    if found == asked:
        return None
    return (
        f"{request.model_id} is in the repository, and is another model: its candidate is {found!r:.200}, asked for "
        f"was {asked!r:.200}; was the run's folder restored from an older copy? Use another folder for a new run"
    )


def report_of_record(record: Any, number: int) -> Report:
    """Return the report of a model that was put while nobody took its report.

    Seconds are those up to the put; the rest is what its record says.
    """
    return Report(**{"number": number, "model_id": record.model_id, **_of_record(record)})


def _of_record(record: Any) -> dict[str, Any]:
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    kept = dict(extra.get("report") or {})
    return {
        **kept,
        "status": "finished",
        "quality": record.quality,
        "metrics": dict(record.metrics),
        "step": record.step,
        "own_bytes": _own_bytes(record),
    }


def _own_bytes(record: Any) -> int:
    return sum(spec.nbytes for spec in record.own.values())


def _put_report(progress: _Progress) -> JSON:
    """Return what the model's record keeps of the report, in case the report itself is lost."""
    kept = ("ancestor", "prefix", "vertices", "frozen_share", "parameters", "full_bytes")
    return {
        "seconds": {name: round(seconds, 6) for name, seconds in progress.seconds.items()},
        "worker": _worker_name(),
        "started": progress.started,
        "ended": time.time(),
        **{name: progress.fields[name] for name in kept},
    }


def say_error(error: BaseException) -> str:
    """Return type and message of what user code raised; its `__str__` may raise as well."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as second:  # noqa: BLE001 - what user code raises may be anything
        return f"{type(error).__name__}, whose message can't be read: its __str__ raised {type(second).__name__}"


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))[-8_000:]
    except Exception:  # noqa: BLE001 - as above
        return f"{''.join(traceback.format_tb(error.__traceback__))[-8_000:]}{say_error(error)}"


def _shown(value: object) -> str:
    """Return the value's repr, cut; an integer of thousands of digits has none."""
    try:
        return f"{value!r:.60}"
    except Exception:  # noqa: BLE001 - what user code returns may be anything
        return f"a value of type {type(value).__name__} that can't be shown"


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, Failed):
        return error.kind
    if isinstance(error, (InvalidProblem, UnknownProblem)):
        return "problem"
    if isinstance(error, (CannotFlatten, CannotRebuild)):
        return "flatten"
    if isinstance(error, QuotaReached) or (isinstance(error, PutFailed) and error.facts.get("errno") in FULL):
        return "no room"
    return "repository" if isinstance(error, (RepositoryError, ClusterError)) else "error"


def _say(key: str, what: str) -> None:
    worker = _worker()
    if worker is not None:
        worker.log_event(EVENTS, {"key": key, "what": what, "time": time.time(), "worker": str(worker.name)})


def _worker() -> Any:
    """Return the Dask worker of this task, or None outside of one."""
    from distributed import get_worker

    with suppress(ValueError):
        return get_worker()
    return None


def _worker_name() -> str | None:
    worker = _worker()
    return None if worker is None else str(worker.name)


def _cancelled(key: str) -> bool:
    """Tell whether the scheduler has taken the task back. Its thread goes on all the same, so it must look."""
    worker = _worker()
    if worker is None:
        return False
    task = worker.state.tasks.get(key)
    return task is None or task.state not in ("executing", "long-running")
