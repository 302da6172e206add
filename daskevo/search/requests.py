"""The words between a strategy and a run: requests, reports, failures, the view of a run, and stopping.

A strategy asks for *(candidate, hyper-parameter sequence, ancestor, until which step)*; a run answers with reports at a
step. `evaluate(candidate) -> score` is the simplest case. A candidate that is worth more steps is asked for again, in a
request that `continues` its model; a clone (population based training) continues another candidate's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

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
    "cancelled",
    "stopped",
]
"""Why an evaluation failed.

- ``build``: the problem could not build the candidate; ``rejected``: its choices don't go together, as `build` says;
  ``flatten``: its model has no architecture graph.
- ``error``: compiling, training or scoring raised; ``not finite``: the quality is NaN or infinite.
- ``time limit``: the evaluation was past its limit.
- ``problem``: no data, or `score` gave no such metric; no candidate is to blame.
- ``trainer lost``: its trainer died under it more than once; ``repository``: it could not be inherited or stored;
  ``no room``: not stored because the disk is full or the quota reached.
- ``cancelled``: somebody else cancelled its task; ``stopped``: the strategy gave it up.
"""

OF_THE_CANDIDATE: frozenset[FailureKind] = frozenset(
    {"build", "rejected", "flatten", "error", "not finite", "time limit"}
)
"""Failures that the same architecture would meet again: they're not tried twice."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a strategy wants to know.

    Parameters
    ----------
    number:
        0, 1, 2, ... in the order the strategy asked; names the request within its run.
    model_id:
        The name its model will have, fixed before anything is trained.
    candidate:
        The point of the space to evaluate.
    parent:
        The model whose candidate was mutated, for lineage; None for a random candidate.
    ancestor:
        Where weights come from: ``"best match"``, a model id, or None for fresh weights.
    continues:
        The model of an earlier report whose training goes on, from its snapshot (weights, optimizer state, step, random
        numbers and position in the data), never from the beginning; `ancestor` is None then. Steps count on: the
        training ends at `until_step`, of which that model has some already. The candidate is that model's, or, where
        population based training clones it, another one: then its hyper-parameters hold from here on.
    sequence:
        Hyper-parameters over time, for strategies that tune them; None = those of the problem.
    until_step:
        Train until this step (optimizer steps), those of the model that it continues included; None = as many as the
        problem's epochs make.
    transfer:
        False for the control arm and the baseline: nothing is inherited, whatever `ancestor` says.
    training:
        Settings of this evaluation's training instead of the problem's: ``epochs``, ``batch_size``.
    priority:
        Of the requests that are ready, the one with the highest begins first; of equal ones the one asked first.
    choices:
        The options taken, by name, where they can't be told from the space's record; the run fills it in.
    repeat:
        0, 1, 2, ... for evaluations of the same candidate that are to differ by chance alone: with another `repeat`,
        the same training is not a duplicate.
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
                model_id=ModelId(check_name(value["model_id"])),
                candidate=Candidate.from_json(value["candidate"]),
                parent=value["parent"],
                ancestor=value["ancestor"],
                sequence=value["sequence"],
                until_step=value["until_step"],
                transfer=bool(value["transfer"]),
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
    """Why an evaluation failed: a kind to act on, a message to read, the traceback if user code raised."""

    kind: FailureKind
    message: str
    traceback: str = ""

    @property
    def of_the_candidate(self) -> bool:
        """True if the same architecture would fail again."""
        return self.kind in OF_THE_CANDIDATE


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a request.

    Parameters
    ----------
    number, model_id:
        Of the request; for a duplicate, `model_id` is the model of the request in `duplicate_of`.
    status:
        ``finished`` spends the budget; ``failed`` and ``duplicate`` don't.
    step:
        Optimizer steps this model has been trained, its ancestor's steps not counted.
    quality:
        The objective's metric, finite; None unless finished (or a duplicate of a finished one).
    metrics:
        All figures that the problem's `score` gave, and those of the last epoch of training.
    seconds:
        By phase: prepare (data, once per process), query, build, inherit, first_step, training, scoring, put.
    ancestor, prefix, vertices, frozen_share:
        The model inherited from, vertices of the common prefix and of the model, share of vertices frozen.
    own_bytes, full_bytes:
        Bytes this model had to store, and bytes of a full copy of it.
    worker:
        Name of the trainer.
    started, ended:
        Seconds since the epoch, by the trainer's clock.
    transfer:
        What was inherited and why no more; None where it ended before it inherited, and in older records.
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
        """True if anything was inherited."""
        return self.ancestor is not None

    def to_json(self) -> JSON:
        return asdict(self)

    @classmethod
    def from_json(cls, value: JSON) -> Report:
        """Read a stored report; raises CorruptRecord on anything else."""
        try:
            fields = dict(value)
            failure, transfer = fields.pop("failure", None), fields.pop("transfer", None)
            report = cls(
                failure=None if failure is None else Failure(**failure),
                transfer=None if transfer is None else TransferReport.from_json(transfer),
                **fields,
            )
        except (TypeError, ValueError) as error:
            raise CorruptRecord(f"expected a report of a run, found {value!r:.200}") from error
        if report.status not in ("finished", "failed", "duplicate"):
            raise CorruptRecord(f"{report.status!r:.80} is no status of a report")
        return report


@dataclass(frozen=True, slots=True)
class Stop:
    """A strategy's answer to `ask` when there is nothing left to ask for."""

    reason: Literal["exhausted", "done"]
    message: str


@dataclass(frozen=True, slots=True)
class View:
    """What a strategy may look at when it is asked.

    Parameters
    ----------
    wanted:
        How many requests could start now; more are not taken.
    next_number:
        The number of the next request.
    prefix:
        What the run's model ids start with.
    asked:
        All candidates asked for so far in this run, whatever became of them.
    pending:
        Requests without a report, in the order in which they were asked.
    """

    wanted: int
    next_number: int
    prefix: str
    asked: Collection[Candidate]
    pending: Sequence[Request] = ()

    def request(self, offset: int, candidate: Candidate, **fields: Any) -> Request:
        """Make the `offset`-th request of this answer, numbered and named (see :class:`Request` for the fields)."""
        number = self.next_number + offset
        return Request(number=number, model_id=model_id(self.prefix, number), candidate=candidate, **fields)


def model_id(prefix: str, number: int) -> ModelId:
    """Name the model of a request.

    >>> model_id("attn-3f2a91c0", 42)
    'attn-3f2a91c0-00042'
    """
    return ModelId(check_name(f"{prefix}-{number:05d}"))


def usable(quality: float | None) -> bool:
    """Tell whether a quality may win, be a parent or stay in a population: finite numbers only."""
    return quality is not None and not isinstance(quality, bool) and math.isfinite(quality)
