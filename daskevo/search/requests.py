"""Data that strategies and runs exchange: requests, reports, failures, the view of a run, and stopping.

A strategy asks for *(candidate, hyper-parameter sequence, ancestor, last step)*; a run answers with reports. The
simplest case is `evaluate(candidate) -> score`. To train a candidate further, a request `continues` its model; a clone
in population based training continues another candidate's model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeGuard

from daskevo.errors import CorruptRecord
from daskevo.search.transfer_report import TransferReport
from daskevo.space import Candidate
from daskevo.types import JSON, ModelId, check_name

BEST_MATCH = "best match"
"""The value of `Request.ancestor` that leaves the choice to the repository (the blank keeps it apart from model
ids)."""

FailureKind = Literal[
    "build",
    "rejected",
    "flatten",
    "error",
    "not finite",
    "time limit",
    "problem",
    "trainer lost",
    "repository",
    "no room",
    "other data",
    "cancelled",
    "stopped",
]
"""Why an evaluation failed.

- ``build``: the problem could not build the candidate; ``rejected``: `build` says that its choices are incompatible;
  ``flatten``: its model has no architecture graph.
- ``error``: compiling, training or scoring raised; ``not finite``: the quality is NaN or infinite.
- ``time limit``: the evaluation exceeded its time limit.
- ``problem``: the problem has no data, or `score` did not return the metric; the candidate is not at fault.
- ``trainer lost``: its trainer died more than once during it; ``repository``: inheriting or storing failed;
  ``no room``: not stored because the disk is full or the quota reached.
- ``other data``: its trainer has other data than the run; such a run ends, and no report says so.
- ``cancelled``: another client cancelled its task; ``stopped``: the strategy cancelled it.
"""

OF_THE_CANDIDATE: frozenset[FailureKind] = frozenset(
    {"build", "rejected", "flatten", "error", "not finite", "time limit"}
)
"""Failures that the same architecture would repeat, so it is not tried again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One evaluation that a strategy asks for.

    What a way of running can't do is refused before it is trained: a study, for instance, refuses `repeat`, `training`,
    `sequence`, `priority` and an `ancestor` by name.

    Parameters
    ----------
    number:
        0, 1, 2, ... in the order of asking; identifies the request within its run.
    model_id:
        The id that its model will have; fixed before training.
    candidate:
        The point of the space to evaluate.
    parent:
        The model whose candidate was mutated, for lineage; None for a random candidate.
    ancestor:
        Source of weights: ``"best match"``, a model id, or None for fresh weights.
    continues:
        The model of an earlier report whose training is continued from its snapshot (weights, optimizer state, step,
        random state and position in the data); `ancestor` is None then. Steps are counted from the first training on:
        it ends at `until_step`, of which that model has done some. The candidate is that model's own, or, for a clone
        in population based training, a different one, whose hyper-parameters apply from here on.
    sequence:
        Hyper-parameters over time, for strategies that tune them; None = the problem's.
    until_step:
        Train up to this step, including steps of the model that it continues; None = for the problem's epochs. In the
        unit of the run if it continues trainings, otherwise an optimizer step.
    transfer:
        False for the control arm and the baseline: nothing is inherited, even if `ancestor` is set.
    training:
        Training settings that replace the problem's: ``epochs`` (unless `until_step` says the end), ``batch_size``.
    priority:
        Of the ready requests, the one with the highest priority starts first; ties go to the earlier one.
    choices:
        The chosen options by name, for spaces whose record can't tell; filled in by the run.
    repeat:
        0, 1, 2, ... for evaluations of the same candidate that differ only by chance: the same training with another
        `repeat` is not a duplicate.
    """

    number: int
    model_id: ModelId
    candidate: Candidate
    parent: ModelId | None = None
    ancestor: str | None = BEST_MATCH
    sequence: JSON = None
    until_step: int | None = None
    transfer: bool = True
    training: Mapping[str, int] = field(default_factory=dict)
    priority: float = 0.0
    choices: Mapping[str, JSON] | None = None
    repeat: int = 0
    continues: ModelId | None = None

    def to_json(self) -> JSON:
        return {
            "number": self.number,
            "model_id": self.model_id,
            "candidate": self.candidate.to_json(),
            "parent": self.parent,
            "ancestor": self.ancestor,
            "sequence": self.sequence,
            "until_step": self.until_step,
            "transfer": self.transfer,
            "training": dict(self.training),
            "priority": self.priority,
            "choices": self.choices,
            "repeat": self.repeat,
            "continues": self.continues,
        }

    @classmethod
    def from_json(cls, value: JSON) -> Request:
        """Read a stored request; raises CorruptRecord on anything else."""
        try:
            return cls(
                number=int(value["number"]),
                # Checked, because a record may be damaged or a stranger's, and model ids become file names.
                model_id=ModelId(check_name(value["model_id"])),
                candidate=Candidate.from_json(value["candidate"]),
                parent=value["parent"],
                ancestor=value["ancestor"],
                sequence=value["sequence"],
                until_step=value["until_step"],
                transfer=bool(value["transfer"]),
                # Fields read by `get` came later: older records lack them.
                training={str(name): int(number) for name, number in value.get("training", {}).items()},
                priority=float(value.get("priority", 0.0)),
                choices=value.get("choices"),
                repeat=int(value.get("repeat", 0)),
                continues=None if (model := value.get("continues")) is None else ModelId(check_name(model)),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptRecord(f"expected a request of a run, found {value!r:.200}") from error


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an evaluation failed: a kind for programs, a message for people, the traceback if user code raised."""

    kind: FailureKind
    message: str
    traceback: str = ""

    @property
    def of_the_candidate(self) -> bool:
        """Whether the same architecture would fail again."""
        return self.kind in OF_THE_CANDIDATE


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a request.

    Parameters
    ----------
    number, model_id:
        Of the request; for a duplicate, `model_id` is the model of the request in `duplicate_of`.
    status:
        ``finished`` counts against the budget; ``failed`` and ``duplicate`` don't.
    step:
        Optimizer steps that this model has been trained, without its ancestor's.
    quality:
        Value of the first objective, finite; None unless finished (or a duplicate of a finished one).
    metrics:
        All metrics that the problem's `score` returned, and those of the last epoch.
    seconds:
        By phase: prepare (data, once per process), query, build, inherit, first_step, training, scoring, put.
    ancestor, prefix, vertices, frozen_share:
        The model inherited from, number of vertices of the shared prefix and of the model, share of frozen vertices.
    own_bytes, full_bytes:
        Bytes that this model added to the repository, and bytes of a full copy.
    worker:
        Name of the trainer.
    started, ended:
        Seconds since the epoch, by the trainer's clock.
    transfer:
        What was inherited, and why no more; None if it ended before inheriting, and in older records.
    """

    number: int
    model_id: ModelId
    status: Literal["finished", "failed", "duplicate"]
    step: int = 0
    quality: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    failure: Failure | None = None
    duplicate_of: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    ancestor: ModelId | None = None
    prefix: int = 0
    vertices: int = 0
    frozen_share: float = 0.0
    parameters: int = 0
    own_bytes: int = 0
    full_bytes: int = 0
    worker: str | None = None
    started: float | None = None
    ended: float | None = None
    transfer: TransferReport | None = None

    @property
    def transferred(self) -> bool:
        """Whether anything was inherited."""
        return self.ancestor is not None

    @property
    def own_quality(self) -> float | None:
        """Quality of the model that this evaluation trained; None if it failed or is a duplicate of another."""
        return float(self.quality) if self.status == "finished" and usable(self.quality) else None

    def to_json(self) -> JSON:
        return asdict(self)

    @classmethod
    def from_json(cls, value: JSON) -> Report:
        """Read a stored report; raises CorruptRecord on anything else."""
        try:
            # A copy, since what is converted or checked is taken out of it.
            fields = dict(value)
            failure, transfer, quality = (fields.pop(name, None) for name in ("failure", "transfer", "quality"))
            report = cls(
                number=int(fields.pop("number")),
                model_id=ModelId(check_name(fields.pop("model_id"))),
                quality=None if quality is None else float(quality),
                metrics=dict(fields.pop("metrics", {})),
                seconds=dict(fields.pop("seconds", {})),
                failure=None if failure is None else Failure(**failure),
                transfer=None if transfer is None else TransferReport.from_json(transfer),
                **fields,
            )
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise CorruptRecord(f"expected a report of a run, found {value!r:.200}") from error
        if report.status not in ("finished", "failed", "duplicate"):
            raise CorruptRecord(f"{report.status!r:.80} is no status of a report")
        return report


@dataclass(frozen=True, slots=True)
class Stop:
    """A strategy's answer to `ask` when it has nothing more to ask for."""

    reason: Literal["exhausted", "done"]
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """The state of a run that a strategy may use in `ask`.

    Parameters
    ----------
    wanted:
        Number of requests that could start now; any beyond it are ignored.
    next_number:
        The number of the next request.
    prefix:
        Prefix of the run's model ids.
    asked:
        All candidates asked for in this run so far, with any result.
    pending:
        Requests without a report, in the order in which they were asked.
    """

    wanted: int
    next_number: int
    prefix: str
    asked: Collection[Candidate]
    pending: Sequence[Request] = ()

    def request(self, offset: int, candidate: Candidate, **fields: Any) -> Request:
        """Make the `offset`-th request of this answer, with number and model id (fields as in :class:`Request`)."""
        number = self.next_number + offset
        return Request(number=number, model_id=model_id(self.prefix, number), candidate=candidate, **fields)


def model_id(prefix: str, number: int) -> ModelId:
    """Return the model id of a request.

    >>> model_id("attn-3f2a91c0", 42)
    'attn-3f2a91c0-00042'
    """
    return ModelId(check_name(f"{prefix}-{number:05d}"))


def usable(quality: float | None) -> TypeGuard[float]:
    """Tell whether a quality may win, be a parent or join a population: it must be a finite number."""
    # True and False are numbers in Python, and no quality.
    return quality is not None and not isinstance(quality, bool) and math.isfinite(quality)
