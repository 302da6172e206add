"""Estimate duration, number of jobs and storage of a search from a few measured evaluations; no I/O.

The result includes its assumptions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from daskevo.errors import InvalidInput
from daskevo_plugins.formatting import say_bytes, say_count, say_seconds
from daskevo_workflows.execution.deadline import expected_s
from daskevo_workflows.execution.machine_load import Load

LEAST = 3
"""Minimum number of finished evaluations for an estimate."""
ERRORS = 2.0
"""Half-width of the range in standard errors of the mean: about 95 %."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished evaluation.

    Parameters
    ----------
    seconds:
        Duration on its trainer.
    first:
        Whether it was the first of its trainer's process, which imports Keras, prepares the data and traces graphs.
    own_bytes, full_bytes:
        Bytes that it stored, and bytes of a full copy of its model.
    """

    seconds: float
    first: bool
    own_bytes: int
    full_bytes: int


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements from the beginning of a search.

    Parameters
    ----------
    samples:
        Finished evaluations, in the order of their reports.
    trainers:
        Number of trainers that evaluated them.
    start_s:
        Seconds from the beginning of the session to its first evaluation.
    gap_s:
        Mean seconds between two evaluations of a trainer: asking, building, querying and reporting.
    kept:
        Maximum number of published models besides those in training: the population and the best; None: all.
    living_share:
        Bytes stored for the published models as a share of full copies; None: not sampled yet.
    recycle_after:
        Number of evaluations after which a trainer is restarted; None: never.
    restart_s:
        Mean seconds between two evaluations with a restart in between; 0: there was none yet.
    load:
        Load of the trainers' machine meanwhile; None: not recorded, or several machines.
    """

    samples: Sequence[Sample]
    trainers: int
    start_s: float
    gap_s: float
    kept: int | None = None
    living_share: float | None = None
    recycle_after: int | None = None
    restart_s: float = 0.0
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate with its likely range."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimate for a search.

    Parameters
    ----------
    evaluations, trainers:
        As given.
    seconds:
        From the beginning of the first session to the end of the last evaluation, without time in queues.
    jobs:
        Number of consecutive jobs of the given walltime; None: no walltime was given.
    evaluations_per_job:
        Evaluations per job, of all trainers together; None: no walltime was given.
    living_bytes, all_bytes, full_bytes:
        Bytes of tensors: of the models published at the end; of all models, if none were retired; of full copies of
        all.
    assumptions:
        Sentences.
    load:
        Load during the measurement; None: not known.
    """

    evaluations: int
    trainers: int
    seconds: Range
    jobs: Range | None
    evaluations_per_job: int | None
    living_bytes: int
    all_bytes: int
    full_bytes: int
    assumptions: list[str] = field(default_factory=list)
    load: Load | None = None


def forecast(
    measured: Measured, evaluations: int, trainers: int, walltime_s: float | None = None, grace_s: float = 20.0
) -> Forecast:
    """Estimate a search with this number of evaluations on this number of trainers.

    Parameters
    ----------
    walltime_s:
        Time limit of each job that the search runs in; None: no jobs.
    grace_s:
        Seconds that a job reserves for its end.

    Raises
    ------
    InvalidInput
        If too few evaluations were measured, or a job is too short for one evaluation per trainer.
    """
    for name, value in (("evaluations", evaluations), ("trainers", trainers)):
        if type(value) is not int or value < 1:
            raise InvalidInput(f"{name}={value!r:.40}: use 1 or more")
    samples = measured.samples
    if len(samples) < LEAST:
        raise InvalidInput(
            f"{say_count(len(samples), 'evaluation')} finished, and a forecast needs {LEAST} at least: measure more"
        )
    warm = [sample.seconds for sample in samples if not sample.first] or [sample.seconds for sample in samples]
    cold = [sample.seconds for sample in samples if sample.first]
    mean_s, error_s = _mean(warm)
    # A first evaluation is compared with later ones: without any of these there is nothing to tell.
    first_s = max(0.0, statistics.fmean(cold) - mean_s) if cold and len(cold) < len(samples) else 0.0
    each = Range(
        mean_s + measured.gap_s,
        max(mean_s - ERRORS * error_s, 0.0) + measured.gap_s,
        mean_s + ERRORS * error_s + measured.gap_s,
    )
    turns = evaluations / trainers
    begin_s = measured.start_s + first_s
    # Each turn has a gap already: a restart costs what it takes beyond that.
    again_s = first_s + max(0.0, measured.restart_s - measured.gap_s)
    restarts_s = _restarts(turns, measured.recycle_after) * again_s
    # At the end trainers finish one after the other, and most of them wait for one of the longest evaluations.
    last_s = max((expected_s(warm) or mean_s) - mean_s / 2, mean_s / 2)
    tail_s = last_s * (1 - 1 / trainers)
    seconds = Range(*(begin_s + turns * one + restarts_s + tail_s for one in (each.value, each.low, each.high)))
    jobs, per_job = None, None
    if walltime_s is not None:
        # A trainer gets nothing more once nearly all evaluations would take longer than the time left.
        usable_s = walltime_s - grace_s - begin_s - last_s
        counts = [
            trainers * _turns_in(usable_s, one, again_s, measured.recycle_after)
            # Slow evaluations give few per job: the high time is the low count.
            for one in (each.value, each.high, each.low)
        ]
        per_job = counts[0]
        if not per_job:
            raise InvalidInput(
                f"in a job of {say_seconds(walltime_s)} no trainer ends an evaluation: it takes "
                f"{say_seconds(begin_s)} to begin, {say_seconds(mean_s)} an evaluation and {say_seconds(grace_s)} to "
                "end; take longer jobs"
            )
        # At the slow end a job may finish none; one per job keeps the range finite.
        low, high = math.ceil(evaluations / counts[2]), math.ceil(evaluations / max(counts[1], 1))
        jobs = Range(math.ceil(evaluations / per_job), low, high)
    own, full = (statistics.fmean(getattr(sample, name) for sample in samples) for name in ("own_bytes", "full_bytes"))
    all_bytes = own * evaluations
    alive = evaluations if measured.kept is None else min(evaluations, measured.kept + trainers)
    # Without a sample of the repository, each model is taken to share as much as it inherited.
    share = measured.living_share if measured.living_share is not None else own / full if full else 1.0
    living = min(all_bytes, alive * full * share)
    found = Forecast(
        *(evaluations, trainers, seconds, jobs, per_job, round(living), round(all_bytes), round(full * evaluations)),
        load=measured.load,
    )
    found.assumptions.extend(_assumptions(measured, found, mean_s, first_s, warm, alive, walltime_s, grace_s))
    return found


def say_load(load: Load | None) -> str:
    """Return a sentence about the load during the measurement.

    Examples
    --------
    >>> say_load(Load(3.0, 4.5, 2, 7))[:76]
    'the machine is as busy as it was then: a load average of 1.50 per core (2 co'
    """
    if load is None:
        return "the trainers' machines are as busy as they were then; what their load was is not known"
    return (
        f"the machine is as busy as it was then: a load average of {load.per_core:.2f} per core "
        f"({say_count(load.cores, 'core')}, {say_count(load.looks, 'look')}, {load.highest / load.cores:.2f} at most), "
        "the search's own work included"
    )


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    # One value says nothing about the spread: as large as the value itself.
    if len(values) < 2:
        return values[0], values[0]
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def _restarts(turns: float, recycle_after: int | None) -> int:
    """Return the number of restarts of a trainer in that many evaluations; none is needed after the last."""
    return 0 if recycle_after is None else max(0, math.ceil(turns / recycle_after) - 1)


def _turns_in(usable_s: float, each_s: float, again_s: float, recycle_after: int | None) -> int:
    """Return the number of evaluations that a trainer finishes in `usable_s` seconds."""
    if each_s <= 0 or usable_s <= 0:
        return 0
    if recycle_after is None:
        return math.floor(usable_s / each_s)
    whole, rest_s = divmod(usable_s, recycle_after * each_s + again_s)
    return int(whole) * recycle_after + min(recycle_after, math.floor(rest_s / each_s))


def _assumptions(
    measured: Measured,
    found: Forecast,
    mean_s: float,
    first_s: float,
    warm: Sequence[float],
    alive: int,
    walltime_s: float | None,
    grace_s: float,
) -> list[str]:
    halves = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    trend = statistics.fmean(halves[1]) / statistics.fmean(halves[0]) if halves[0] and sum(halves[0]) else 1.0
    lines = [
        f"an evaluation takes {say_seconds(mean_s)} on a trainer, the mean of {len(warm)} measured (those of their "
        f"second half took {trend:.2f} times those of the first); later ones, which inherit more and may be larger, "
        "take as long",
        f"a trainer is as fast as those measured, with as many cores or the same GPU; {found.trainers} of them slow "
        f"each other, the scheduler and the file system no more than the {measured.trainers} measured",
        f"between two evaluations a trainer waits {say_seconds(measured.gap_s)}; the first in a process takes "
        f"{say_seconds(first_s)} more; a session begins its first after {say_seconds(measured.start_s)}, to which the "
        "start of the cluster comes",
        say_load(measured.load),
        "none fails, and no trainer is lost or waits in a queue",
    ]
    if measured.recycle_after is not None:
        took = f"that takes {say_seconds(measured.restart_s)}" if measured.restart_s else "none has been measured yet"
        lines.append(
            f"a trainer's process is started again after {say_count(measured.recycle_after, 'evaluation')} ({took}), "
            "and the next is a first one"
        )
    if walltime_s is not None:
        lines.append(
            f"each job has all {found.trainers} trainers from its beginning, {say_seconds(walltime_s)} of walltime, of "
            f"which {say_seconds(grace_s)} are kept for the end; what would not end is not begun"
        )
    own = statistics.fmean(sample.own_bytes for sample in measured.samples)
    lines.append(
        f"a model stores {say_bytes(own)} of its own, the mean of {len(measured.samples)} measured; {alive} models "
        "live at the end, and share with each other as those do that live now"
        + ("" if measured.living_share is not None else " (not sampled yet: as each shares with its ancestor)")
        + "; journals and the record of the run are not counted"
    )
    return lines
