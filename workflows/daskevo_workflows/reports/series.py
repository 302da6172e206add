"""The data of one run's report, and figures computed from them without I/O."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal

from daskevo.search.pareto import front, ranks_of
from daskevo.types import JSON, Objective
from daskevo_workflows.execution.event_kinds import OTHER_DATA

Status = Literal["finished", "failed", "duplicate"]

PHASES = ("prepare", "query", "build", "inherit", "compile", "first_step", "training", "scoring", "put")
"""Phases of an evaluation in their order; a record may have others, shown after these."""

REPOSITORY_PHASES = frozenset({"query", "inherit", "put"})
"""Phases spent on the repository; the others would also exist without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """One evaluation for the report. Times are seconds of running time since the run's first start.

    Parameters
    ----------
    number:
        The request's number in the run.
    started_s, ended_s:
        When its trainer began it, and when its report came; None if the record doesn't say.
    quality:
        The objective's value, never negated; None if it failed or was not finite.
    seconds:
        Phase -> seconds on the trainer.
    asked_transfer:
        Whether the request allowed to inherit (a control arm does not).
    continues:
        The earlier part of the same candidate that it goes on from; what it inherited is what its first part did.
    prefix, vertices:
        Vertices shared with the ancestor, and vertices of the model.
    own_bytes, full_bytes:
        Bytes that the put stored, and bytes of a full copy.
    no_more, no_more_words:
        Why no more was inherited, as a keyword and as a sentence; empty if the record doesn't say.
    metrics:
        Values of the run's further objectives, by name.
    """

    number: int
    model_id: str
    status: Status
    started_s: float | None = None
    ended_s: float | None = None
    worker: str | None = None
    quality: float | None = None
    step: int = 0
    reason: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)
    asked_transfer: bool = True
    continues: str | None = None
    parent: str | None = None
    ancestor: str | None = None
    prefix: int = 0
    vertices: int = 0
    frozen_share: float | None = None
    parameters: int | None = None
    own_bytes: int | None = None
    full_bytes: int | None = None
    no_more: str = ""
    no_more_words: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)

    @property
    def transferred(self) -> bool:
        """Whether it inherited something."""
        return self.ancestor is not None and self.status == "finished"

    @property
    def total_s(self) -> float:
        """Seconds of all phases on the trainer."""
        return math.fsum(self.seconds.values())

    @property
    def cost_s(self) -> float:
        """Seconds on the trainer, without those that its process spends once on preparation."""
        # It falls on whatever a process evaluates first, mostly from scratch, and would count against that arm only.
        return self.total_s - self.seconds.get("prepare", 0.0)


@dataclass(frozen=True, slots=True)
class StorageSample:
    """The repository's size for this run at a time: bytes of published models, and of full copies."""

    at_s: float
    stored_bytes: int
    full_bytes: int
    live_models: int


@dataclass(frozen=True, slots=True)
class Happening:
    """An event of the run: trainers that came or left, repeated evaluations, why it stopped."""

    at_s: float
    kind: str
    number: int | None
    message: str


def say_other_data(happenings: Iterable[Happening]) -> str:
    """Say that a run went on with other data than it began with; empty if it did not."""
    if not any(one.kind == OTHER_DATA for one in happenings):
        return ""
    return (
        "qualities of this run can't be compared with each other: some of its trainers had other data than it began "
        "with, and its models inherit from each other all the same"
    )


@dataclass(frozen=True, kw_only=True)
class RunSeries:
    """Everything that a report shows of one run.

    Parameters
    ----------
    label:
        The run's short name in legends.
    arm:
        What is compared between runs, for example ``no transfer``.
    objective, others:
        The first objective, which is the quality, and the further ones.
    evaluations:
        In the order in which they ended.
    asked:
        Budget of finished evaluations; None if there is none.
    facts:
        Facts in display order: problem, space, strategy, seed, policy, machine, versions.
    identity:
        The run's identity, as recorded.
    retired:
        Those of its best models whose weights are gone, as far as its repository could be asked.
    """

    label: str
    arm: str = ""
    run_id: str
    objective: Objective
    others: tuple[Objective, ...] = ()
    evaluations: tuple[EvaluationRow, ...]
    storage: tuple[StorageSample, ...] = ()
    happenings: tuple[Happening, ...] = ()
    asked: int | None = None
    runtime_s: float = 0.0
    state: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    identity: Mapping[str, JSON] = field(default_factory=dict)
    retired: frozenset[str] = frozenset()

    @property
    def finished(self) -> list[EvaluationRow]:
        """Evaluations that counted against the budget."""
        return [evaluation for evaluation in self.evaluations if evaluation.status == "finished"]

    @property
    def scored(self) -> list[EvaluationRow]:
        """Finished evaluations with a quality and a time, in the order in which they ended."""
        return [e for e in self.finished if e.quality is not None and e.ended_s is not None]

    @property
    def failed(self) -> list[EvaluationRow]:
        """Evaluations that ended without a model."""
        return [evaluation for evaluation in self.evaluations if evaluation.status == "failed"]

    @property
    def rejected(self) -> int:
        """Number of those that were rejected before training."""
        return sum(evaluation.reason.startswith("rejected: ") for evaluation in self.failed)

    @property
    def duplicates(self) -> int:
        """Number of candidates whose architecture had been evaluated before."""
        return sum(evaluation.status == "duplicate" for evaluation in self.evaluations)

    @property
    def transferred(self) -> list[EvaluationRow]:
        """Evaluations that inherited something."""
        return [evaluation for evaluation in self.finished if evaluation.transferred]

    def best(self, k: int) -> list[EvaluationRow]:
        """Return the `k` best evaluations, best first, ties by the earlier one; of each candidate the best part."""
        # Sorting is stable, and evaluations are in the order of their ends: the earlier one of equals stays first.
        ranked = sorted(
            (e for e in self.finished if e.quality is not None), key=lambda e: -self.objective.rank(e.quality or 0.0)
        )
        best: dict[str, EvaluationRow] = {}
        for evaluation in ranked:
            best.setdefault(self._first_part(evaluation.model_id), evaluation)
        return list(best.values())[:k]

    @property
    def in_parts(self) -> bool:
        """Whether candidates are trained in parts, each of which is an evaluation."""
        return "unit" in self.identity

    def _first_part(self, model_id: str) -> str:
        while (before := self._parts.get(model_id)) is not None:
            model_id = before
        return model_id

    @cached_property
    def _parts(self) -> dict[str, str]:
        """Model -> the one that it goes on from."""
        return {e.model_id: e.continues for e in self.evaluations if e.continues is not None}

    @cached_property
    def front(self) -> list[EvaluationRow]:
        """With several objectives, the non-dominated evaluations, best first by the first objective."""
        if not self.others:
            return []
        goals = (self.objective, *self.others)
        ranked = [
            (ranks, e)
            for e in self.finished
            if (ranks := ranks_of(goals, {**e.metrics, self.objective.metric: e.quality})) is not None
        ]
        best = [ranked[index] for index in front([ranks for ranks, _ in ranked])]
        return [e for _, e in sorted(best, key=lambda one: (-one[0][0], one[1].number))]

    @property
    def evaluation_s(self) -> float:
        """Seconds that trainers spent on evaluations, including all phases and failures."""
        return math.fsum(e.total_s for e in self.evaluations)

    @property
    def repository_s(self) -> float:
        """Seconds that trainers spent with the repository (:data:`REPOSITORY_PHASES`)."""
        return math.fsum(s for e in self.evaluations for phase, s in e.seconds.items() if phase in REPOSITORY_PHASES)

    @property
    def mean_frozen_share(self) -> float | None:
        """Mean share of frozen vertices over finished evaluations, those that inherited nothing counted as 0."""
        return mean([e.frozen_share or 0.0 for e in self.finished])

    @cached_property
    def ancestors(self) -> dict[str, str | None]:
        """Model -> the model that it inherited from."""
        return {e.model_id: e.ancestor for e in self.evaluations if e.status != "failed"}

    def lineage(self, model_id: str) -> list[str]:
        """Return a model and its ancestors, as far as this run knows them."""
        chain = {model_id: None}  # a dict, because a long chain is looked into at every step
        current = self.ancestors.get(model_id)
        while current is not None and current not in chain:
            chain[current] = None
            current = self.ancestors.get(current)
        return list(chain)


def mean(values: Sequence[float]) -> float | None:
    """Return the mean, or None of nothing."""
    # `fsum` is exact: a mean doesn't depend on the order of reports.
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[float]) -> float | None:
    """Return the median, or None of nothing."""
    return statistics.median(values) if values else None


def quantile(values: Sequence[float], share: float) -> float | None:
    """Return the quantile between the two nearest values, or None of nothing.

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0], 0.75)
    2.5
    """
    if not values:
        return None
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def running_best(qualities: Sequence[float], objective: Objective) -> list[float]:
    """Return the best so far after each evaluation.

    Examples
    --------
    >>> running_best([0.3, 0.5, 0.4], Objective.parse("max accuracy"))
    [0.3, 0.5, 0.5]
    """

    def better(best: float, new: float) -> float:
        return new if objective.rank(new) > objective.rank(best) else best

    return list(accumulate(qualities, better))


def moving_mean(values: Sequence[float], window: int) -> list[float]:
    """Return the mean of the last `window` values at each place, of fewer where there are fewer.

    Examples
    --------
    >>> moving_mean([1.0, 3.0, 5.0], 2)
    [1.0, 2.0, 4.0]
    """
    return [
        # Added anew for each place: a running sum would carry its rounding errors along.
        math.fsum(values[max(0, i + 1 - window) : i + 1]) / len(values[max(0, i + 1 - window) : i + 1])
        for i in range(len(values))
    ]


def first_reaching(run: RunSeries, target: float) -> tuple[int, float] | None:
    """Return the number of scored evaluations, and seconds of running time, until `target` was reached; None if never.

    Paper 000 compares searches by the time to the baseline's high quality (section 5).
    """
    for count, evaluation in enumerate(run.scored, start=1):
        # Ranks are larger for better ones, whichever direction the objective has.
        if run.objective.rank(evaluation.quality or 0.0) >= run.objective.rank(target):
            return count, evaluation.ended_s or 0.0
    return None


def high_quality(run: RunSeries, share: float = 0.9) -> float | None:
    """Return the quality that only a share of ``1 - share`` of the run's evaluations reach."""
    qualities = [e.quality for e in run.scored if e.quality is not None]
    return quantile(qualities, share if run.objective.direction == "max" else 1 - share)


def late(run: RunSeries) -> list[EvaluationRow]:
    """Return the last quarter of the finished evaluations, where prefixes are longest."""
    finished = run.finished
    # Rounded up, so that one evaluation is a quarter, too.
    return finished[len(finished) - math.ceil(len(finished) / 4) :]


def early(run: RunSeries) -> list[EvaluationRow]:
    """Return the first quarter of the finished evaluations."""
    return run.finished[: math.ceil(len(run.finished) / 4)]


def phase_means(evaluations: Sequence[EvaluationRow]) -> dict[str, float]:
    """Return phase -> mean seconds, known phases first and in their order."""
    timed = [e for e in evaluations if e.seconds]
    names = {phase for e in timed for phase in e.seconds}
    # Records of other versions may have further phases: they are shown, too.
    order = [phase for phase in PHASES if phase in names] + sorted(names.difference(PHASES))
    # Over all of them, also those without the phase: the means add up to the mean of the whole.
    return {phase: math.fsum(e.seconds.get(phase, 0.0) for e in timed) / len(timed) for phase in order}


def cumulative_bytes(run: RunSeries) -> list[tuple[float, int, int]]:
    """Return (time, stored bytes, bytes of full copies) after each put, as if nothing had ever been retired."""
    rows: list[tuple[float, int, int]] = []
    own = full = 0
    for e in run.finished:
        if e.own_bytes is not None and e.full_bytes is not None and e.ended_s is not None:
            own, full = own + e.own_bytes, full + e.full_bytes
            rows.append((e.ended_s, own, full))
    return rows


def founders(run: RunSeries) -> Counter[str]:
    """Return the model at the root of each lineage -> number of finished evaluations descending from it."""
    return Counter(run.lineage(e.model_id)[-1] for e in run.finished)
