"""Seconds of what a study does, from works that were measured, for the simulator."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from daskevo.tuning import Configuration, Machine, StepSequence

Work = Mapping[str, Any]


def seconds_of(works: Iterable[Work], answers: int) -> dict[str, float]:
    """Return what a step, a start and an evaluation take.

    A step takes ``step_s`` and ``batch_s`` divided by the batch size: least squares over the works, or the mean of all
    steps where one of them is below 0. ``build_s`` is that of a model that is built, ``start_s`` that of work that goes
    on from a snapshot, each all that a trainer has a work for besides steps and scoring: to be sent, to read and load
    the snapshot, to store the last one; medians.
    """
    works = list(works)
    trained = [work for work in works if work["steps"]]
    known = np.array([[work["steps"], work["inverse"]] for work in trained])
    training = np.array([work["training"] for work in trained])
    step_s, batch_s = np.linalg.lstsq(known, training, rcond=None)[0]
    if min(step_s, batch_s) < 0:
        step_s, batch_s = training.sum() / known[:, 0].sum(), 0.0
    rest = {
        built: [work["s"] - work["training"] - work["scoring"] for work in trained if work["built"] is built]
        for built in (True, False)
    }
    return {
        "step_s": float(step_s),
        "batch_s": float(batch_s),
        "evaluate_s": sum(work["scoring"] for work in works) / answers,
        "build_s": statistics.median(rest[True]),
        **({"start_s": statistics.median(rest[False])} if rest[False] else {}),
    }


def machine(
    seconds: Mapping[str, float],
    start_s: float,
    metrics: Callable[[Configuration, int], Mapping[str, float]] | None = None,
) -> Machine:
    """Return a trainer that takes so long.

    Examples
    --------
    >>> from daskevo.tuning import Constant
    >>> one = machine({"step_s": 1.0, "batch_s": 32.0, "evaluate_s": 0.5}, 2.0)
    >>> one.step_s(Configuration({"batch_size": Constant(64)}, unit="epoch"), 0)
    1.5
    """

    @cache
    def cost(size: StepSequence, step: int) -> float:
        return seconds["step_s"] + seconds["batch_s"] / size(step)

    def step_s(configuration: Configuration, step: int) -> float:
        return cost(configuration.sequences["batch_size"], step)

    return Machine(step_s, start_s, seconds["evaluate_s"], metrics or _none)


def _none(configuration: Configuration, step: int) -> Mapping[str, float]:
    return {}
