"""One evaluation, as it runs on a trainer: build, inherit, freeze, train, score, put.

Its input is the assignment, its output the report. An exception in user code becomes a failed report, not a failed
task. If the task is run again after its put, it finds its model and does not train.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

from daskevo.errors import InvalidProblem, ModelExists
from daskevo.index import PrefixMatch
from daskevo.search import BEST_MATCH, Report, Request
from daskevo.types import Objective, Tick
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.failures import Failed, failure_of, say_error, shown
from daskevo_workflows.evaluation.offered_metrics import OFFERED, missing, when_stored
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.evaluation.report import Draft, fields_of_record, other_candidate, own_bytes, transfer_report
from daskevo_workflows.evaluation.trainer_task import Sayer, cancelled, check_trainer, worker_name
from daskevo_workflows.evaluation.training import Stopped, finite, lost_its_way, train
from daskevo_workflows.evaluation.training_part import PartBefore, TrainingPart, beginning, part_before
from daskevo_workflows.evaluation.training_seed import seed_of, trajectory, trajectory_of
from daskevo_workflows.problems.building import build_candidate
from daskevo_workflows.problems.data_parts import check_data
from daskevo_workflows.problems.delivery import Parcel
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.problems.reference import ProblemReference, adopt, data_digest_of, data_of


def evaluate(
    assignment: EvaluationAssignment,
    matches: Sequence[PrefixMatch | None] | None = None,
    index: int = 0,
    parcel: Parcel | None = None,
) -> Report:
    """Evaluate one request.

    Parameters
    ----------
    assignment:
        What to evaluate, and how.
    matches:
        Answers of the batch's query; None: this task queries the repository itself.
    index:
        Index of this request's answer.
    parcel:
        The problem, if it was passed as an object.

    Returns
    -------
    Report
        Finished or failed. A cancelled task raises :class:`Stopped`.

    Raises
    ------
    VersionMismatch
        If this trainer has other versions of what decides a training.
    """
    check_trainer(assignment.repository)
    if parcel is not None:
        # The object came as a Dask dependency; the reference finds it in this process from now on.
        adopt(assignment.problem, parcel.instance)
    try:
        return _reported(assignment, matches, index)
    finally:
        # The run keeps this trainer's slot out of use until it hears this, if it could not end the process. Said in any
        # case: the run may cancel this evaluation at this very moment.
        _say(assignment, "over")


def _say(assignment: EvaluationAssignment, what: str, **facts: Any) -> None:
    """Send a message to the run that submitted this task."""
    Sayer(assignment.key, assignment.topic)(what, **facts)


def _reported(assignment: EvaluationAssignment, matches: Sequence[PrefixMatch | None] | None, index: int) -> Report:
    request, draft = assignment.request, Draft()
    try:
        _say(assignment, "begun")
        found = _evaluate(assignment, None if matches is None else matches[index], draft)
    except Stopped:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything, SystemExit too, and the search goes on
        # An exception beyond Exception would end the worker and tell the run nothing.
        found = {"status": "failed", "failure": failure_of(error)}
    return draft.report(request, found)


def _evaluate(assignment: EvaluationAssignment, match: PrefixMatch | None, draft: Draft) -> Mapping[str, Any]:
    with draft.phase("prepare"):
        import_keras()
        from daskevo.models import leaving_no_trace, seeded

        problem = assignment.problem.load()
        data = _data(assignment.problem, problem)
    rows = data_digest_of(assignment.problem)
    _say(assignment, "ready", data=rows)
    if assignment.rows and rows is not None and rows not in assignment.rows:
        raise Failed("other data", "data() gave other data than this run began with")
    # Building may draw random numbers, so seed before it; training is seeded again below, once the ancestor is known.
    name = trajectory(assignment.seed, assignment.graph.ids, repeat=assignment.request.repeat)
    with seeded(seed_of(name)), leaving_no_trace():
        return _trained(assignment, problem, data, match, draft)


def _trained(
    assignment: EvaluationAssignment, problem: Problem, data: Any, match: PrefixMatch | None, draft: Draft
) -> Mapping[str, Any]:
    from daskevo.models import seeded

    request, repository = assignment.request, assignment.repository
    objectives = (assignment.objective, *assignment.others)
    policy = assignment.transfer
    with ExitStack() as stack:
        # Reserve before building: the provider works while this process builds the model.
        with draft.phase("inherit"):
            before = part_before(assignment)
            wish = _wish(assignment, match, before)
            reserved = stack.enter_context(
                repository.reserve(
                    assignment.graph,
                    model_id=request.model_id,
                    minimum_layers=policy.minimum_layers,
                    knows_loaded=True,
                    **wish,
                )
            )
        model = _build(problem, request, draft, names_anew=assignment.unit is not None)
        with draft.phase("inherit"):
            freeze = policy.freeze if before is None else before.freezes(model)
            try:
                child = stack.enter_context(
                    repository.inherit(model, freeze=freeze, parent=request.parent, reserved=reserved)
                )
            except ModelExists as error:
                # This task was run before, and was lost after its put.
                if (other := other_candidate(error.record, request)) is not None:
                    raise Failed("repository", other) from error
                return fields_of_record(error.record, objectives)
        # The run may now release labels that it kept for this choice.
        _say(assignment, "chosen")
        _note(child, draft, before)
        source = trajectory_of(child.ancestor_record) if child.report.inherited_tensors else None
        name = (
            trajectory(assignment.seed, child.graph.ids, source, request.repeat) if before is None else before.training
        )
        stack.enter_context(seeded(seed_of(name)))
        part = None
        if assignment.unit is None:
            metrics, steps = _fitted(assignment, problem, data, child, draft)
            new_steps = steps
        else:
            part = TrainingPart(assignment, problem, data, child.model, name, before)
            metrics = part.train(draft)
            steps, new_steps, name = part.steps, part.new_steps, part.name
        # Before the put: such weights would be inherited.
        if why := lost_its_way(metrics):
            raise Failed("not finite", why)
        seconds = sum(draft.seconds.get(phase, 0.0) for phase in ("first_step", "training"))
        if before is not None:
            seconds += before.seconds
        metrics = {**metrics, **missing(objectives, metrics, child.graph, seconds)}
        draft.fields.update(step=steps, metrics=finite(metrics))
        qualities = [_quality(one, metrics) for one in objectives if one.metric in metrics or one.metric != "own_bytes"]
        extra = {"report": draft.kept(), "candidate": request.candidate.to_json(), "trajectory": name}
        with draft.phase("put"):
            child.put(
                metrics=finite(metrics),
                step=steps,
                labels=list(assignment.labels),
                extra=extra,
                trained_steps=new_steps,
                finite=True,
            )
            if part is not None and assignment.keeps_state:
                part.keep(child.model_id, child.frozen_layers, draft.inherited(), seconds, finite(metrics))
        stored = own_bytes(child.record)
        return {
            "status": "finished",
            "quality": qualities[0],
            "own_bytes": stored,
            "metrics": when_stored(objectives, finite(metrics), stored),
        }


def _wish(assignment: EvaluationAssignment, match: PrefixMatch | None, before: PartBefore | None) -> dict[str, Any]:
    """Return the arguments of `reserve` that say which model to inherit from."""
    request, policy = assignment.request, assignment.transfer
    if before is not None:
        # All of its weights: the put then stores only what this part has changed.
        return {"ancestor": request.continues}
    if request.continues is not None:
        return beginning(assignment.repository, request)
    if not request.transfer or request.ancestor is None:
        return {"ancestor": False}
    if request.ancestor != BEST_MATCH:
        return {"ancestor": request.ancestor}
    if policy.source == "best match":
        return {"match": match}
    # The parent is tried first, like a query's answer; if it is gone, the repository queries for the best match.
    return (
        {"match": PrefixMatch(0, 0.0, Tick(0, 0), request.parent)}
        if request.parent is not None
        else {"ancestor": False}
    )


def _fitted(
    assignment: EvaluationAssignment, problem: Problem, data: Any, child: Any, draft: Draft
) -> tuple[dict[str, Any], int]:
    """Train with the prefix frozen, then with nothing frozen if the policy says so; return metrics and steps."""
    request, policy, report = assignment.request, assignment.transfer, child.report
    inherited = len(report.matched)
    epochs = request.training.get("epochs") or assignment.epochs or problem.epochs
    how: dict[str, Any] = {
        "batch_size": request.training.get("batch_size"),
        "callbacks": assignment.callbacks,
        "cancelled": lambda: cancelled(assignment.key),
    }
    stretched = policy.epochs(epochs, inherited=inherited, layers=inherited + len(report.unmatched))
    metrics, steps = train(problem, child.model, data, draft, epochs=stretched, until_step=request.until_step, **how)
    # Where nothing was frozen, all has been trained already.
    if policy.unfreeze_epochs and child.frozen_share:
        child.unfreeze()
        metrics, more = train(problem, child.model, data, draft, epochs=policy.unfreeze_epochs, **how)
        steps += more
    return metrics, steps


def _build(problem: Problem, request: Request, draft: Draft, *, names_anew: bool) -> Any:
    from daskevo.models.keras_private import fresh_names

    # Names are part of a traced step: parts of one training may be trained in several processes.
    with draft.phase("build"), fresh_names() if names_anew else nullcontext():
        try:
            return build_candidate(problem, request.candidate)
        except Stopped:
            raise
        except BaseException as error:
            raise Failed("build", f"build() raised {say_error(error)}") from error


def _data(reference: ProblemReference, problem: Problem) -> Any:
    """Return the problem's data.

    Raises
    ------
    InvalidProblem
        If there is none; no candidate would fare better.
    """
    try:
        data = data_of(reference)
    except Stopped:
        raise
    except BaseException as error:
        raise InvalidProblem(
            f"problem {problem.name!r} has no data on {worker_name() or 'this process'}: data() must return "
            f"Data(train=(x, y), validation=(x, y)), and there was {say_error(error)}"
        ) from error
    check_data(problem, data)
    return data


def _quality(objective: Objective, metrics: dict[str, Any]) -> float:
    """Return the finite value of an objective.

    Raises
    ------
    Failed
        If it is not a finite number.
    InvalidProblem
        If there is no metric of that name; no candidate would fare better.
    """
    name = objective.metric
    if name in metrics:
        quality = objective.quality(metrics)
        if quality is None:
            raise Failed("not finite", f"the quality {name!r} is {shown(metrics[name])}, not a finite number")
        return quality
    names = sorted(map(str, metrics))
    meant = difflib.get_close_matches(name, [*names, *OFFERED], 1)
    to_do = f"did you mean '{objective.direction} {meant[0]}'?" if meant else "name one, or let score() return it"
    raise InvalidProblem(
        f"the objective is {str(objective)!r}, and neither score() nor training gave a metric {name!r}; "
        f"they gave {', '.join(names) or 'none'}: {to_do}"
    )


def _note(child: Any, draft: Draft, before: PartBefore | None) -> None:
    """Split the query's time from the time to inherit, and note what was inherited when the training began."""
    # Only time that this task waited: query and reservation may both have finished while the model was built.
    query = max(0.0, float(child.timings["wait_s"]) - float(child.timings.get("reserve_s", 0.0)))
    draft.seconds["query"] = query
    draft.seconds["inherit"] = max(0.0, draft.seconds["inherit"] - query)
    inherited = child.report.inherited_tensors > 0
    draft.fields.update(
        # A prefix without weights, such as an input layer, does not count as inheritance.
        ancestor=child.ancestor if inherited else None,
        prefix=len(child.prefix.vertices),
        vertices=len(child.graph.vertices),
        frozen_share=float(child.frozen_share),
        transfer=transfer_report(child.report),
        parameters=int(child.graph.parameters),
        full_bytes=int(child.graph.nbytes),
    )
    if before is not None:
        draft.fields.update(before.fields)
