"""Refining: train the winners of a search in full, nothing frozen, on the trainers, and keep the results.

A search trains briefly, so its order is a guess (the better the models inherit, the more so): what counts is how the
best few do when trained in full, from the weights they have or from scratch.
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
    from daskevo_workflows.results.best_model import Found
    from daskevo_workflows.results.result import Result

logger = logging.getLogger(__name__)

PATIENCE = 3

TICK_S = 1.0
"""How often trainers are looked at while winners are trained."""


@dataclass(frozen=True)
class Refined:
    """A winner trained in full.

    Parameters
    ----------
    found:
        The winner as the search left it.
    report:
        Of its training; ``report.quality`` is that of the best epoch.
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
    """Unfreeze the winners of a search and train them, each on a trainer.

    Parameters
    ----------
    found:
        What ``result.best(k)`` gave.
    problem:
        The run's problem; found by its name if None, and needed if it was a file or an object.
    epochs:
        At most so many.
    patience:
        Epochs without a better quality after which it ends. The best epoch's weights stay, or those that it began with
        where no epoch was better.
    from_scratch:
        Start from fresh weights: is the architecture good, or did it inherit well?
    callbacks:
        Further Keras callbacks.
    seed:
        For shuffling, dropout and fresh weights.

    Returns
    -------
    list[Refined]
        In the order of their quality, best first. They are in the repository, labelled ``refined:<run>``; repeating
        the call trains nothing again, unless callbacks or patience are others, or nobody can tell. Data
        are not compared: with other data under the same problem pass another ``seed``.

    Raises
    ------
    NoTrainer
        If the cluster has none, and doesn't start any by itself
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
    """Return what a refined model's name ends with: nothing for the usual patience and no callbacks."""
    if patience == PATIENCE and not callbacks:
        return ""
    made = made_of(patience, callbacks)
    return f"-{uuid.uuid4().hex[:8] if made.unknown else made.digest[:8]}"


def _evaluated(
    client: Any, trainers: Trainers, assignments: Sequence[EvaluationAssignment], delivery: Delivery
) -> list[Report]:
    """Have all evaluated; what a restart of the cluster took is done again, and it is said if no trainer works.

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
        with suppress(TimeoutError), client.as_current():  # `wait` asks for a client, which need not be the default one
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
    """Makes the user's callbacks, and the one that scores each epoch, stops in time and puts the best weights back."""

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
