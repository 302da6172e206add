"""The families of sequences: constant, linear, exponential, by steps and milestones, cosine, cyclic.

Source: paper 002, appendix A.1. Parameters are numbers; steps count from 0, in the unit of the configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.tuning.exact import Floats, Integers, half_cosine, powers
from daskevo.tuning.step_sequence import StepSequence, check_steps, number


def _set(sequence: StepSequence, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(sequence, name, value)  # frozen, so this is the way to keep what was checked


def _scaled(start: float, gamma: float, times: Integers) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        return start * powers(gamma, times)


def _line(start: float, end: float, share: Floats) -> Floats:
    """Between two values: exactly `start` at 0, and everywhere if the two are equal."""
    return start + (end - start) * share


@dataclass(frozen=True)
class Constant(StepSequence):
    """The same value at every step."""

    kind = "constant"
    value: float

    def __post_init__(self) -> None:
        _set(self, value=number(self.value, "value"))

    def evaluate(self, start: int, stop: int) -> Floats:
        return np.full(stop - start, self.value)


@dataclass(frozen=True)
class Linear(StepSequence):
    """From `start` to `end` in equal steps; `end` from step `steps` on.

    Examples
    --------
    >>> Linear(0.0, 1.0, 4).values(0, 6).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """

    kind = "linear"
    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        _set(
            self,
            start=number(self.start, "start"),
            end=number(self.end, "end"),
            steps=check_steps(self.steps, "steps of a linear sequence", 1),
        )

    def evaluate(self, start: int, stop: int) -> Floats:
        steps = np.arange(start, stop)
        with np.errstate(over="ignore", invalid="ignore"):
            sloped = _line(self.start, self.end, steps / self.steps)
        # `start + (end - start)` may round to another number than `end`.
        return np.where(steps >= self.steps, self.end, sloped)


@dataclass(frozen=True)
class Exponential(StepSequence):
    """`start`, multiplied with `gamma` at every step.

    Examples
    --------
    >>> Exponential(1.0, 0.5).values(0, 4).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """

    kind = "exponential"
    start: float
    gamma: float

    def __post_init__(self) -> None:
        _set(self, start=number(self.start, "start"), gamma=number(self.gamma, "gamma"))

    def evaluate(self, start: int, stop: int) -> Floats:
        return _scaled(self.start, self.gamma, np.arange(start, stop))


@dataclass(frozen=True)
class Step(StepSequence):
    """`start`, multiplied with `gamma` every so many steps.

    Examples
    --------
    >>> Step(1.0, 2, 0.5).values(0, 5).tolist()
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    kind = "step"
    start: float
    every: int
    gamma: float

    def __post_init__(self) -> None:
        _set(
            self,
            start=number(self.start, "start"),
            every=check_steps(self.every, "every", 1),
            gamma=number(self.gamma, "gamma"),
        )

    def evaluate(self, start: int, stop: int) -> Floats:
        return _scaled(self.start, self.gamma, np.arange(start, stop) // self.every)


@dataclass(frozen=True)
class MultiStep(StepSequence):
    """`start`, multiplied with `gamma` at each milestone.

    Examples
    --------
    >>> MultiStep(128, (2, 3), 2).values(0, 5).tolist()
    [128.0, 128.0, 256.0, 512.0, 512.0]
    """

    kind = "multistep"
    start: float
    milestones: tuple[int, ...]
    gamma: float

    def __post_init__(self) -> None:
        if not isinstance(self.milestones, (tuple, list)):
            raise InvalidInput(f"milestones are {self.milestones!r:.80}, expected steps, such as (100, 150)")
        milestones = tuple(check_steps(step, "a milestone", 1) for step in self.milestones)
        if any(later <= earlier for earlier, later in pairwise(milestones)):
            raise InvalidInput(f"milestones are {milestones!r:.80}, expected each later than the one before")
        _set(self, start=number(self.start, "start"), milestones=milestones, gamma=number(self.gamma, "gamma"))

    def evaluate(self, start: int, stop: int) -> Floats:
        passed = np.searchsorted(np.array(self.milestones, np.int64), np.arange(start, stop), side="right")
        return _scaled(self.start, self.gamma, passed.astype(np.int64))


@dataclass(frozen=True)
class Cosine(StepSequence):
    """From `start` to `end` along half a cosine, in `period` steps.

    Parameters
    ----------
    restarts:
        None: `end` after the period. A number from 1: back to `start`, again and again, each period so many times as
        long as the one before (rounded to whole steps).

    Examples
    --------
    >>> Cosine(1.0, 0.0, 2).values(0, 4).round(9).tolist()
    [1.0, 0.5, 0.0, 0.0]
    >>> Cosine(1.0, 0.0, 2, restarts=2).values(0, 7).round(2).tolist()
    [1.0, 0.5, 1.0, 0.85, 0.5, 0.15, 1.0]
    """

    kind = "cosine"
    start: float
    end: float
    period: int
    restarts: float | None = None

    def __post_init__(self) -> None:
        restarts = None if self.restarts is None else number(self.restarts, "restarts")
        if restarts is not None and restarts < 1:
            raise InvalidInput(f"restarts is {restarts}, expected a number from 1 (each period as long), or None")
        _set(
            self,
            start=number(self.start, "start"),
            end=number(self.end, "end"),
            period=check_steps(self.period, "period", 1),
            restarts=restarts,
        )

    def evaluate(self, start: int, stop: int) -> Floats:
        steps = np.arange(start, stop)
        if self.restarts is None:
            share = np.minimum(steps, self.period) / self.period
        elif self.restarts == 1.0:
            share = (steps % self.period) / self.period
        else:
            begins = self._begins(stop)
            # For each step its period, by where the periods begin.
            which = np.searchsorted(begins, steps, side="right") - 1
            share = (steps - begins[which]) / (begins[which + 1] - begins[which])
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(share == 1.0, self.end, _line(self.start, self.end, half_cosine(share)))

    def _begins(self, stop: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Return where periods begin, until one that begins at `stop` or later."""
        assert self.restarts is not None
        begins, length = [0], float(self.period)
        while begins[-1] < stop:
            begins.append(begins[-1] + round(length))
            # Far beyond any step, and sums of it still fit into 64 bits.
            length = min(length * self.restarts, 2.0**50)
        return np.array(begins)


@dataclass(frozen=True)
class Cyclic(StepSequence):
    """Up from `low` to `high` in `up` steps and down again in `down` steps, for ever.

    Examples
    --------
    >>> Cyclic(0.0, 1.0, 2, 4).values(0, 8).tolist()
    [0.0, 0.5, 1.0, 0.75, 0.5, 0.25, 0.0, 0.5]
    """

    kind = "cyclic"
    low: float
    high: float
    up: int
    down: int

    def __post_init__(self) -> None:
        _set(
            self,
            low=number(self.low, "low"),
            high=number(self.high, "high"),
            up=check_steps(self.up, "up", 1),
            down=check_steps(self.down, "down", 1),
        )

    def evaluate(self, start: int, stop: int) -> Floats:
        place = np.arange(start, stop) % (self.up + self.down)
        with np.errstate(over="ignore", invalid="ignore"):
            rising = _line(self.low, self.high, place / self.up)
            falling = _line(self.high, self.low, (place - self.up) / self.down)
        return np.where(place < self.up, rising, falling)
