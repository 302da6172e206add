"""What each part of a search costs, measured once and kept as JSON: the simulator has no other numbers.

Every figure says where it comes from. None has a default: what was not measured is not there.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.types import JSON


@dataclass(frozen=True)
class Phase:
    """Seconds of one phase of an evaluation, as a model and a prefix make them.

    ``(fixed_s + per_parameter_s * parameters) * (1 - saving * frozen share)``, times a draw whose logarithm has the
    deviation `spread` and whose mean is 1.

    Examples
    --------
    >>> Phase(1.0, 0.0, 0.5).seconds(parameters=1000, frozen_share=0.4)
    0.8
    """

    fixed_s: float
    per_parameter_s: float = 0.0
    saving: float = 0.0
    spread: float = 0.0

    def seconds(self, parameters: int, frozen_share: float, draw: float = 0.0) -> float:
        """Return the seconds of one evaluation; `draw` is from the standard normal distribution."""
        mean = (self.fixed_s + self.per_parameter_s * parameters) * (1 - self.saving * frozen_share)
        return mean * math.exp(self.spread * draw - self.spread**2 / 2) if draw else mean


@dataclass(frozen=True)
class MeasuredCosts:
    """What each part of a search costs. Seconds, unless said otherwise.

    Parameters
    ----------
    machine, sources:
        Where it was measured; and where each figure comes from, by name.
    prepare_s:
        Of a trainer, once: Keras and the data.
    build, first_step, training, scoring:
        Of an evaluation.
    inherit_s, compile_s, put_s:
        Of an evaluation: the trainer's own work beside waiting for others.
    steps:
        Steps of training that an evaluation has; what is frozen depends on it.
    graph_s, strategy_s, submit_s, fetch_s, commit_s, label_s:
        Of the search's process: a candidate's graph; `ask` and `tell` for one request; to submit an evaluation, to
        fetch its report, one transaction of the run's record, the client's part of a label change.
    task_s, heartbeat_s, look_s:
        Of the scheduler's process: one task from submission to the end, a heartbeat of a worker, and a worker's part
        of the answer about who is there, which the search asks for once a second.
    coordinator_s:
        Of the scheduler's process: a message to the coordinator.
    ask_provider_s:
        Of who asks: one message to one provider.
    ask_question_s:
        Of who asks: each further question in that message.
    query_s, question_s, message_s, put_message_s:
        Of a provider: a message with one question for the best match among its models, each further question in it,
        another message, and the one that brings a model.
    flush_s:
        Until a provider's journal is on the disk as safely as the repository's setting wants it.
    latency_s:
        Of a message, one way.
    bytes_per_s:
        At which a trainer writes and reads tensors.
    scan_s, copy_bytes_per_s, load_bytes_per_s:
        Of the rival that keeps whole models in files, and their architectures in one server: per model of a query,
        and writing and reading.
    """

    machine: str
    sources: Mapping[str, str]
    prepare_s: float
    build: Phase
    first_step: Phase
    training: Phase
    scoring: Phase
    inherit_s: float
    compile_s: float
    put_s: float
    steps: int
    graph_s: float
    strategy_s: float
    submit_s: float
    fetch_s: float
    commit_s: float
    label_s: float
    task_s: float
    heartbeat_s: float
    look_s: float
    coordinator_s: float
    ask_provider_s: float
    ask_question_s: float
    query_s: float
    question_s: float
    message_s: float
    put_message_s: float
    flush_s: float
    latency_s: float
    bytes_per_s: float
    scan_s: float
    copy_bytes_per_s: float
    load_bytes_per_s: float

    def __post_init__(self) -> None:
        for name in figures():
            value = getattr(self, name)
            least = value.fixed_s if isinstance(value, Phase) else value
            if not math.isfinite(least) or least < 0 or (name.endswith("_per_s") and not least):
                raise InvalidInput(f"{name}={value!r} can't be a cost: use a finite number, 0 or more")
            if name not in self.sources:
                raise InvalidInput(f"nothing says where the cost {name!r} comes from: name its source")

    def but(self, source: str, **changes: float | Phase) -> MeasuredCosts:
        """Return costs that differ in some figures, and say so.

        Parameters
        ----------
        source:
            Where the other figures come from.

        Raises
        ------
        InvalidInput
            If there is no cost of a name, or it can't be that.
        """
        if unknown := set(changes) - set(figures()):
            raise InvalidInput(f"there is no cost {sorted(unknown)[0]!r}: they are {', '.join(figures())}")
        sources = {**self.sources, **dict.fromkeys(changes, source)}
        return dataclasses.replace(self, sources=sources, **changes)  # type: ignore[arg-type]

    def evaluation_s(self, parameters: int, frozen_share: float) -> float:
        """Return the mean seconds of an evaluation that waits for nobody, its trainer's own work with the repository
        included."""
        phases = (self.build, self.first_step, self.training, self.scoring)
        own = self.inherit_s + self.compile_s + self.put_s
        return own + sum(phase.seconds(parameters, frozen_share) for phase in phases)

    def to_json(self) -> JSON:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: JSON) -> MeasuredCosts:
        """Read what `to_json` wrote; raises CorruptRecord on anything else."""
        try:
            fields: dict[str, Any] = {
                name: Phase(**part) if name in PHASES else part for name, part in dict(value).items()
            }
            return cls(**fields)
        except (InvalidInput, TypeError, ValueError) as error:
            raise CorruptRecord(f"these are no costs of a search: {error}") from error

    def save(self, path: str | Path) -> None:
        """Write the costs to a file."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> MeasuredCosts:
        """Read a file of costs; raises CorruptRecord if it isn't one."""
        try:
            return cls.from_json(json.loads(Path(path).read_text()))
        except ValueError as error:
            raise CorruptRecord(f"{path} is no file of costs: {error}", path=str(path)) from error


PHASES = ("build", "first_step", "training", "scoring")
"""Costs that depend on the model."""


def figures() -> list[str]:
    """Return the names of all costs."""
    return [field.name for field in dataclasses.fields(MeasuredCosts) if field.name not in ("machine", "sources")]
