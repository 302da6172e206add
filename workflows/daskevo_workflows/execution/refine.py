"""Refine the best models of a search: train them in full on the trainers, with nothing frozen, and store them.

A search trains briefly, so its ranking is only a guess, especially if models inherit. What counts is the quality of the
best few after full training, from their weights or from scratch.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from distributed import wait

from daskevo.code_identity import made_of
from daskevo.errors import InvalidInput, NoTrainer
from daskevo.runs.mismatch import differences
from daskevo.search import Report, Request
from daskevo.types import ModelId, Objective
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.evaluate import evaluate
from daskevo_workflows.evaluation.training import fresh
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.execution.run_identity import problem_identity
from daskevo_workflows.execution.scaling_demand import Demand
from daskevo_workflows.execution.scheduler_lost import why_cut_off
from daskevo_workflows.execution.synchronous_client import check_can_lead
from daskevo_workflows.execution.trainer_upkeep import NO_TRAINER_S
from daskevo_workflows.execution.trainers import Trainers
from daskevo_workflows.problems import Problem, ProblemReference, refer
from daskevo_workflows.problems.building import graph_of
from daskevo_workflows.problems.delivery import Delivery

if TYPE_CHECKING:
    from daskevo_workflows.results.result import Found, Result

logger = logging.getLogger(__name__)

PATIENCE = 3

TICK_S = 1.0
"""Interval at which trainers are checked while models are trained."""


@dataclass(frozen=True)
class Refined:
    """A model of the search after full training.

    Parameters
    ----------
    found:
        The model as found by the search.
    report:
        Report of the training; ``report.quality`` is that of the best epoch.
    """

    found: Found
    report: Report

    @property
    def model_id(self) -> ModelId:
        """The refined model's id in the repository."""
        return self.report.model_id

    @property
    def quality(self) -> float | None:
        return self.report.quality

    @property
    def model(self) -> Any:
        """The trained keras.Model."""
        return self.found.result.repository.load(self.report.model_id)


def refine(
    found: Sequence[Found],
    problem: str | Problem | ProblemReference | None = None,
    *,
    epochs: int = 20,
    patience: int = PATIENCE,
    from_scratch: bool = False,
    callbacks: Callbacks = (),
    seed: int = 0,
) -> list[Refined]:
    """Train the best models of a search in full with nothing frozen, each on a trainer.

    Parameters
    ----------
    found:
        Models from ``result.best(k)``.
    problem:
        The run's problem; None: found by its name. It must be passed if it was a file or an object.
    epochs:
        Maximum number of epochs.
    patience:
        Number of epochs without improvement after which training ends. The best epoch's weights are kept, or the
        initial ones if no epoch was better.
    from_scratch:
        Start from fresh weights, to see whether the architecture is good or only inherited well.
    callbacks:
        Further Keras callbacks.
    seed:
        For shuffling, dropout and fresh weights.

    Returns
    -------
    list[Refined]
        By quality, best first. The models are in the repository, labelled ``refined:<run>``. Repeating the call trains
        again only if callbacks or patience differ, or can't be compared. Data are not compared: if they changed, pass
        another ``seed``.

    Raises
    ------
    NoTrainer
        If the cluster has none and doesn't start any by itself
        (:meth:`daskevo.deploy.local.LocalEvoCluster.adapt`).
    """
    if not found:
        return []
    result = found[0].result
    reference = _reference(problem, result)
    client = result.repository.client
    check_can_lead(client, "nas.refine")
    trainers = Trainers(client, lambda name, error: None)
    if not trainers.refresh() and not Demand(client, "refining").is_met_later():
        raise NoTrainer(
            f"no worker with the resource {trainers.claimed}: refining needs a trainer, so {trainers.how_to_start_one}"
        )
    delivery = Delivery(client, reference)
    way = "scratch" if from_scratch else "refined"
    ending = _ending(patience, callbacks)
    assignments = []
    for rank, winner in enumerate(found):
        request = Request(
            number=rank,
            model_id=ModelId(f"{winner.model_id}-{way}-{epochs}-{seed}{ending}"),
            candidate=winner.candidate,
            parent=winner.model_id,
            ancestor=winner.model_id,
            transfer=not from_scratch,
        )
        assignment = EvaluationAssignment(
            key=f"refine-{request.model_id}",
            request=request,
            problem=delivery.reference,
            repository=result.repository,
            seed=seed,
            graph=graph_of(reference.load(), winner.candidate),
            objective=result.objective,
            transfer=Transfer(freeze="none"),
            labels=(f"refined:{result.info.label}",),
            callbacks=_KeepBest(delivery.reference, result.objective, patience, callbacks, fresh_start=from_scratch),
            epochs=epochs,
        )
        assignments.append(assignment)
    try:
        reports = _evaluated(client, trainers, assignments, delivery)
    finally:
        delivery.close()
    if not from_scratch:
        say_what_began_anew(reports)
    refined = [Refined(winner, report) for winner, report in zip(found, reports, strict=True)]
    rank_of = result.objective.rank
    return sorted(refined, key=lambda one: -float("inf") if one.quality is None else rank_of(one.quality), reverse=True)


def say_what_began_anew(reports: Sequence[Report]) -> None:
    """Warn of winners that didn't give all of their weights: retired, or with layers whose code is another now."""
    for report in reports:
        if report.transfer is not None and report.transfer.reason != "whole model":
            logger.warning(
                "%s did not begin with all weights of its winner: it inherited %s", report.model_id, report.transfer
            )


def _ending(patience: int, callbacks: Callbacks) -> str:
    """Return the suffix of a refined model's name: empty for the default patience without callbacks."""
    if patience == PATIENCE and not callbacks:
        return ""
    made = made_of(patience, callbacks)
    return f"-{uuid.uuid4().hex[:8] if made.unknown else made.digest[:8]}"


def _evaluated(
    client: Any, trainers: Trainers, assignments: Sequence[EvaluationAssignment], delivery: Delivery
) -> list[Report]:
    """Evaluate all assignments; repeat those lost in a restart of the cluster, and warn if no trainer works.

    Raises
    ------
    SchedulerUnreachable
    """
    futures: dict[int, Any] = {}
    reports: dict[int, Report] = {}
    moved, is_said = time.monotonic(), False
    while len(reports) < len(assignments):
        for rank, assignment in enumerate(assignments):
            if rank not in reports and rank not in futures:
                arguments = (assignment, None, 0, delivery.parcel())
                futures[rank] = client.submit(
                    evaluate, *arguments, key=assignment.key, resources=trainers.claims, pure=False
                )
        with suppress(TimeoutError), client.as_current():  # `wait` uses the current client
            wait(list(futures.values()), timeout=TICK_S, return_when="FIRST_COMPLETED")
        for rank, future in list(futures.items()):
            if future.done():
                del futures[rank]
                if future.status != "cancelled" or why_cut_off(future) is None:
                    reports[rank] = future.result()
        present = trainers.refresh()
        if any(trainer.running for trainer in present.values()):
            moved, is_said = time.monotonic(), False
        elif time.monotonic() - moved > NO_TRAINER_S and not is_said:
            is_said = True
            paused = ", ".join(sorted(name for name, trainer in present.items() if trainer.paused))
            logger.warning(
                "refining waits for a trainer: %s",
                f"Dask has paused {paused} for their memory" if paused else "none is left",
            )
    return [reports[rank] for rank in range(len(assignments))]


@dataclass(frozen=True)
class _KeepBest:
    """Makes the user's callbacks, and one that scores each epoch, stops early and restores the best weights."""

    problem: ProblemReference
    objective: Objective
    patience: int
    callbacks: Callbacks
    fresh_start: bool = False

    def __call__(self) -> list[Any]:
        import keras

        from daskevo_workflows.problems.reference import data_of

        problem, data = self.problem.load(), data_of(self.problem)
        objective, patience, fresh_start = self.objective, self.patience, self.fresh_start

        class KeepBest(keras.callbacks.Callback):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.best: float | None = None
                self.weights: list[Any] = []
                self.waited = 0

            def is_better(self) -> bool:
                """Score the weights, and keep them if they are the best so far."""
                quality = objective.quality(dict(problem.score(self.model, data)))
                if quality is None or (self.best is not None and objective.rank(quality) <= objective.rank(self.best)):
                    return False
                self.best, self.weights = quality, self.model.get_weights()
                return True

            def on_train_begin(self, logs: Any = None) -> None:
                if not fresh_start:
                    self.is_better()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                self.waited = 0 if self.is_better() else self.waited + 1
                if self.waited >= patience:
                    self.model.stop_training = True

            def on_train_end(self, logs: Any = None) -> None:
                if self.weights:
                    self.model.set_weights(self.weights)

        return [*fresh(self.callbacks), KeepBest()]


def _reference(problem: str | Problem | ProblemReference | None, result: Result) -> ProblemReference:
    recorded = result.info.identity["problem"]
    if problem is None:
        if recorded["kind"] != "name":
            raise InvalidInput(
                f"the run's problem {recorded['name']!r} was a {recorded['kind']}: pass it to refine(found, problem)"
            )
        return refer(recorded["name"], **recorded["settings"])
    reference = refer(problem)  # type: ignore[arg-type]
    differing = differences({"problem": recorded}, {"problem": problem_identity(reference)})
    if set(differing) - {"problem.data", "problem.made.data"}:
        raise InvalidInput(
            f"the run in {result.folder} was of another problem ({recorded['name']!r}, content {recorded['content']}), "
            f"not of {reference.name!r}, content {reference.content}"
        )
    return reference
