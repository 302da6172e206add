"""What a simulated search came to, and what it would be limited by."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from daskevo.search import Report, Request
from daskevo.types import JSON


class SimulatedSpan(NamedTuple):
    """An evaluation on a trainer: number of the trainer and of the request; seconds from the beginning."""

    trainer: int
    number: int
    begun_s: float
    ended_s: float


class SimulatedSample(NamedTuple):
    """What the repository held at a moment, in seconds from the beginning; bytes."""

    at_s: float
    stored_bytes: int
    full_copy_bytes: int
    models: int


class SimulatedLoad(NamedTuple):
    """How much a server had to do.

    Parameters
    ----------
    name:
        Which one; of many alike, the busiest.
    share:
        Of the run's time that it was at work, 0 to 1.
    most_per_s:
        Evaluations per second that it can take part in, if it does nothing else.
    longest_wait_s:
        That something waited for it.
    """

    name: str
    share: float
    most_per_s: float
    longest_wait_s: float


@dataclass
class SimulatedOutcome:
    """What a simulated search came to.

    Parameters
    ----------
    trainers, providers:
        How many there were.
    runtime_s:
        From the beginning until the last report that was wanted.
    requests, reports:
        In the order in which they were asked, and told.
    spans:
        In the order in which they ended.
    storage:
        What the repository held, by and by.
    messages:
        By kind, all of the run.
    loads:
        By server, the busiest first.
    hottest_shard:
        Messages of the shard that had most, over the mean of all; 0.0 without shards.
    gone:
        Ancestors that had left before they could be reserved.
    """

    trainers: int
    providers: int
    runtime_s: float = 0.0
    requests: Sequence[Request] = ()
    reports: Sequence[Report] = ()
    spans: list[SimulatedSpan] = field(default_factory=list)
    storage: list[SimulatedSample] = field(default_factory=list)
    messages: Mapping[str, int] = field(default_factory=dict)
    loads: Sequence[SimulatedLoad] = ()
    hottest_shard: float = 0.0
    gone: int = 0

    @property
    def finished(self) -> list[Report]:
        """Reports of the evaluations that spent budget."""
        return [report for report in self.reports if report.status == "finished"]

    @property
    def mean_frozen_share(self) -> float:
        return statistics.fmean(report.frozen_share for report in self.finished)

    @property
    def evaluation_s(self) -> tuple[float, float]:
        """Mean and deviation of the evaluations' seconds on their trainers."""
        seconds = [span.ended_s - span.begun_s for span in self.spans]
        return statistics.fmean(seconds), statistics.pstdev(seconds)

    @property
    def busy_share(self) -> float:
        """Share of the trainers' time that an evaluation was on them."""
        return sum(span.ended_s - span.begun_s for span in self.spans) / (self.trainers * self.runtime_s)

    @property
    def repository_share(self) -> float:
        """Share of the evaluations' seconds in which a trainer waited for the repository, or worked for it."""
        parts = ("query", "inherit", "put")
        own = sum(report.seconds.get(part, 0.0) for report in self.finished for part in parts)
        return own / sum(sum(report.seconds.values()) for report in self.finished)

    @property
    def waves(self) -> float:
        """How much evaluations begin in waves (paper 000, figure 9): 1 = all trainers together, about 0 = any time.

        The length of the mean of all begins as points on a circle, once round in the median evaluation's seconds.
        """
        period = statistics.median(span.ended_s - span.begun_s for span in self.spans)
        return _resultant([span.begun_s / period for span in self.spans])

    def to_json(self) -> JSON:
        """Return the figures, without what was asked and told."""
        mean, deviation = self.evaluation_s
        peak = max(self.storage, key=lambda sample: sample.stored_bytes)
        return {
            "trainers": self.trainers,
            "providers": self.providers,
            "evaluations": len(self.finished),
            "runtime_s": self.runtime_s,
            "evaluation_s": mean,
            "deviation_s": deviation,
            "busy_share": self.busy_share,
            "repository_share": self.repository_share,
            "frozen_share": self.mean_frozen_share,
            "waves": self.waves,
            "peak_bytes": peak.stored_bytes,
            "stored_bytes": self.storage[-1].stored_bytes,
            "full_copy_bytes": self.storage[-1].full_copy_bytes,
            "hottest_shard": self.hottest_shard,
            "gone": self.gone,
            "messages": sum(self.messages.values()),
            "loads": [load._asdict() for load in self.loads],
        }


def _resultant(turns: Sequence[float]) -> float:
    import cmath

    return abs(sum(cmath.exp(2j * cmath.pi * turn) for turn in turns)) / len(turns)
