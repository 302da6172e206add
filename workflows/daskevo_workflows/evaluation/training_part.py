"""Train a candidate in parts: each goes on from the state that the part before it has left in the repository.

A part ends with a model, which others may inherit from, and with a state: optimizer, random numbers, position in the
data. The state is a snapshot that shares its weights with the model, so only the rest of it is stored once more. Both
are kept by the same labels. A training in parts gives the same bits as one in one piece.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from daskevo.errors import ClusterError, InvalidInput, InvalidProblem, RepositoryError, SnapshotGone
from daskevo.search import Request, TransferReport
from daskevo.tuning import Configuration, Trajectory
from daskevo.tuning.architectures import ARCHITECTURE
from daskevo.types import JSON, ModelId
from daskevo_workflows.evaluation.assignment import EvaluationAssignment
from daskevo_workflows.evaluation.report import Draft
from daskevo_workflows.evaluation.trainer_task import Sayer, cancelled
from daskevo_workflows.evaluation.training import Stopped, fresh
from daskevo_workflows.evaluation.training_seed import seed_of
from daskevo_workflows.problems.building import space_of
from daskevo_workflows.problems.protocol import Problem

if TYPE_CHECKING:
    from daskevo.repository import Repository, Snapshot, StoredSnapshot
    from daskevo.tuning import Unit

logger = logging.getLogger(__name__)

_PHASES = {"build": "compile", "load": "inherit", "first_step": "first_step", "training": "training"}
"""Phases of a training in stages -> phases of a report."""


def state_name(model_id: str) -> ModelId:
    """Return the name of the state that the training of a model can be continued from.

    >>> state_name("attn-3f2a91c0-00042")
    'attn-3f2a91c0-00042-state'
    """
    return ModelId(f"{model_id}-state")


@dataclass(frozen=True)
class PartBefore:
    """What the part before has left.

    Parameters
    ----------
    snapshot:
        The state.
    training:
        Name of the training, from its first step on.
    frozen:
        Layers that were frozen then; indices in ``graph.layers``.
    fields:
        Report fields that say what was inherited then.
    seconds:
        Seconds for which it was trained, in all parts until here.
    """

    snapshot: StoredSnapshot
    training: str
    frozen: tuple[int, ...]
    fields: Mapping[str, Any]
    seconds: float

    def freezes(self, model: Any) -> Callable[[Any], bool]:
        """Return the freeze policy that freezes the same layers in a model of the same architecture."""
        from daskevo.models import flatten

        layers = flatten(model).layers
        chosen = {id(layers[index]) for index in self.frozen}
        return lambda layer: id(layer) in chosen


def part_before(assignment: EvaluationAssignment) -> PartBefore | None:
    """Read what a request continues; None if it continues nothing, or if that is gone: then it begins again."""
    from daskevo_workflows.stage_training.origin import changed_versions

    request = assignment.request
    if request.continues is None:
        return None
    name = state_name(request.continues)
    try:
        snapshot = assignment.repository.read_snapshot(name)
    except SnapshotGone as error:
        _say_gone(assignment, error.message)
        return None
    match snapshot.extra:
        case {
            "began": {
                "training": str(training),
                "frozen": list(frozen),
                "report": dict(fields),
                "seconds": float(seconds),
            }
        }:
            pass
        case _:
            _say_gone(assignment, f"{name} doesn't say how its training began")
            return None
    if changed := changed_versions(snapshot.extra):
        words = ", ".join(f"{package} {then}, here {now}" for package, (then, now) in changed.items())
        _say_gone(assignment, f"{name} was trained with other versions ({words})")
        return None
    transfer = TransferReport.from_json(fields["transfer"])
    return PartBefore(snapshot, training, tuple(frozen), {**fields, "transfer": transfer}, seconds)


def _say_gone(assignment: EvaluationAssignment, why: str) -> None:
    Sayer(assignment.key, assignment.topic)("began again", why=why)


def beginning(repository: Repository, request: Request) -> dict[str, Any]:
    """Return the arguments of `reserve` for a training that begins again: from where it began at first, or afresh.

    The best match now would be the model that it continues, whose weights are trained already.
    """
    record = repository.status(request.continues or "").record
    kept = record.extra if record is not None and isinstance(record.extra, Mapping) else {}
    ancestor = (kept.get("report") or {}).get("ancestor") if request.transfer else None
    if ancestor is None or repository.status(ancestor).state != "published":
        return {"ancestor": False}
    return {"ancestor": ancestor}


class TrainingPart:
    """One part of a candidate's training.

    Parameters
    ----------
    problem, data:
        To compile, train and score with.
    model:
        With inherited weights and frozen layers.
    training:
        Name of the training, from its first step on.
    before:
        Where it goes on; None: it begins.

    Attributes
    ----------
    steps, new_steps:
        Optimizer steps since the training began, and those of this part.
    name:
        Name of the training until this part's end: models that inherit from here are trained with other seeds than
        those that inherit from an earlier part.

    Raises
    ------
    InvalidProblem
        If the order of the data can't be found again.
    InvalidInput
        If the candidate can't be trained in parts.
    """

    def __init__(
        self,
        assignment: EvaluationAssignment,
        problem: Problem,
        data: Any,
        model: Any,
        training: str,
        before: PartBefore | None,
    ) -> None:
        from daskevo_workflows.stage_training.data import feed_of
        from daskevo_workflows.stage_training.training import KerasTraining

        try:
            feed_of(data)
        except InvalidInput as error:
            # No candidate would fare better.
            raise InvalidProblem(f"problem {problem.name!r} can't be trained in parts: {error.message}") from error
        request = assignment.request
        assert assignment.unit is not None
        assert request.until_step is not None
        self._assignment, self._training_name = assignment, training
        self._until: int = request.until_step
        trajectory = Trajectory(training, configuration_of(problem, request, assignment.unit))
        self.name = trajectory.key(self._until)
        self._training = KerasTraining(
            problem,
            trajectory,
            data,
            seed_of(training),
            None if before is None else before.snapshot,
            model=model,
            watching=fresh(assignment.callbacks),
            after_batch=partial(_end_if_cancelled, assignment.key),
        )
        self._before = self._training.optimizer_steps

    @property
    def steps(self) -> int:
        return self._training.optimizer_steps

    @property
    def new_steps(self) -> int:
        return self.steps - self._before

    def train(self, draft: Draft) -> dict[str, Any]:
        """Train to the part's end and return the metrics there.

        Raises
        ------
        Stopped
            If it was cancelled.
        """
        training = self._training
        try:
            training.advance(self._until, lambda step: True)
            self._state: Snapshot = training.snapshot()
            with draft.phase("scoring"):
                # Before the score, whose names come first, and without averaged weights, as at an epoch's end in `fit`.
                metrics: dict[str, Any] = {**training.validate(), **training.score()}
        finally:
            for phase, name in _PHASES.items():
                if phase in training.seconds:
                    draft.add(name, training.seconds[phase])
        training.finish()
        return metrics

    def keep(
        self, model_id: ModelId, frozen: tuple[int, ...], report: JSON, seconds: float, metrics: Mapping[str, Any]
    ) -> None:
        """Store the state, so that the training can be continued; other arguments as `PartBefore` has them.

        Without room it goes unstored, and whoever continues the training begins it again.
        """
        began = {"training": self._training_name, "frozen": list(frozen), "report": report, "seconds": seconds}
        extra = {**self._state.extra, "began": began}
        assignment = self._assignment
        try:
            assignment.repository.put_snapshot(
                replace(self._state, extra=extra),
                step=self._until,
                name=state_name(model_id),
                base=model_id,
                labels=assignment.labels,
                metrics=metrics,
            )
        except (ClusterError, RepositoryError) as error:
            logger.warning("the state of %s is not stored: %s", model_id, error)
            Sayer(assignment.key, assignment.topic)("unsaved", why=error.message)


def configuration_of(problem: Problem, request: Request, unit: Unit) -> Configuration:
    """Return how a request is trained, as trainings in stages have it."""
    batch_size = request.training.get("batch_size")
    constants: dict[str, JSON] = {ARCHITECTURE: space_of(problem).values(request.candidate)}
    return Configuration({}, constants | ({} if batch_size is None else {"batch_size": batch_size}), unit)


def _end_if_cancelled(key: str) -> None:
    if cancelled(key):
        raise Stopped("training was cancelled")
