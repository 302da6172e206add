"""Arms: groups of runs that differ only in their seed, and statistics over them. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from typing import NamedTuple

from daskevo.errors import InvalidInput
from daskevo_plugins.formatting import plain, say_count
from daskevo_workflows.reports.run_names import numbered, policy_names, run_names
from daskevo_workflows.reports.series import RunSeries, first_reaching, median, quantile

MOST_ARMS = 6
"""Maximum number of arms in a figure whose colours, lines and marks can be told apart."""

SAME_SCALE = 1.1
"""Ratio up to which numbers of trainers count as equal: one may have come late or left."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Runs with equal problem, space, objective, strategy, policy and number of trainers, but different seeds.

    Parameters
    ----------
    label:
        Distinguishes it from the other arms.
    policy:
        The label without the number of trainers, for comparisons in which that varies.
    trainers:
        Maximum number of trainers that evaluated at the same time.
    runs:
        At least one.
    """

    label: str
    policy: str
    trainers: int
    runs: tuple[RunSeries, ...]

    @property
    def typical(self) -> RunSeries:
        """The run with the median running time, labelled like the arm; shown where one run has to represent all."""
        # The lower one of the two in the middle: there has to be a run with this time, not a mean of two.
        ordered = sorted(self.runs, key=lambda run: run.runtime_s)
        return replace(ordered[(len(ordered) - 1) // 2], label=self.label)


class Spread(NamedTuple):
    """Median, minimum and maximum over the runs of an arm; `reached` of `runs` have a value at all."""

    low: float
    middle: float
    high: float
    reached: int
    runs: int


class Moment(NamedTuple):
    """Median, minimum and maximum over the runs of an arm at a time, in seconds of running time."""

    at_s: float
    low: float
    middle: float
    high: float


def arms_of(runs: Sequence[RunSeries]) -> list[Arm]:
    """Group runs into arms, ordered by first appearance.

    Raises
    ------
    InvalidInput
        If there is no run, objectives differ (they can't share an axis), or there are too many arms.
    """
    check_comparable(runs)
    arms = _grouped(runs)
    if len(arms) > MOST_ARMS:
        raise InvalidInput(
            f"these {len(runs)} runs are of {len(arms)} kinds (problem, strategy, policy, trainers), and {MOST_ARMS} "
            "can be told apart in a figure: name fewer",
            runs=len(runs),
        )
    return arms


def each_an_arm(runs: Sequence[RunSeries]) -> list[Arm]:
    """Return an arm for each run, labelled by the run; raises InvalidInput like :func:`check_comparable`."""
    check_comparable(runs)
    labels = numbered([plain(run.label, 60) for run in runs])
    return [Arm(label, label, trainers(run), (run,)) for label, run in zip(labels, runs, strict=True)]


def arm_names(runs: Sequence[RunSeries]) -> list[str]:
    """Return the arm label of each run, for any number of arms."""
    labels = {id(run): arm.label for arm in _grouped(runs) for run in arm.runs}
    return [labels[id(run)] for run in runs]


def labelled(runs: Sequence[RunSeries]) -> list[RunSeries]:
    """Return runs with unique labels: those of their arms, or else the runs' names."""
    names = run_names(runs)
    arms = arm_names(runs) if len(runs) > 1 else names
    labels = arms if len(set(arms)) == len(runs) else names
    return [replace(run, label=label) for run, label in zip(runs, labels, strict=True)]


def _grouped(runs: Sequence[RunSeries]) -> list[Arm]:
    groups: dict[tuple[str, int], list[RunSeries]] = {}
    scales: list[int] = []
    for run in runs:
        count = trainers(run)
        # Compared with scales seen before: runs of 19 and 20 trainers share an arm, and which comes first names it.
        scale = next((known for known in scales if max(known, count) <= SAME_SCALE * min(known, count)), count)
        scales.append(scale)
        groups.setdefault((_key(run), scale), []).append(run)
    firsts: dict[str, RunSeries] = {}
    for (key, _), group in groups.items():
        firsts.setdefault(key, group[0])
    policies = dict(zip(firsts, policy_names(list(firsts.values())), strict=True))
    # The number of trainers is named only where it tells arms apart.
    several = len({scale for _, scale in groups}) > 1
    arms = [
        Arm(policies[key] + (f", {say_count(scale, 'trainer')}" if several else ""), policies[key], scale, tuple(group))
        for (key, scale), group in groups.items()
    ]
    # Words are cut to a length, so that different arms may end with the same ones.
    labels = numbered([arm.label for arm in arms])
    return [replace(arm, label=label) for arm, label in zip(arms, labels, strict=True)]


def check_comparable(runs: Sequence[RunSeries]) -> None:
    """Check that there are runs and that their objectives are equal; raises InvalidInput otherwise."""
    if not runs:
        raise InvalidInput("no run was given: name one or several", runs=0)
    other = next((run for run in runs if str(run.objective) != str(runs[0].objective)), None)
    if other is not None:
        raise InvalidInput(
            f"runs of different objectives ({runs[0].objective}, {other.objective}) can't be compared: "
            "make a report of each"
        )


def trainers(run: RunSeries) -> int:
    """Return the maximum number of trainers that evaluated at the same time."""
    spans = [(e.started_s, e.ended_s) for e in run.evaluations if e.started_s is not None and e.ended_s is not None]
    # A span without length would count as one more at a moment at which nothing ran.
    begins = sorted((start, 1) for start, end in spans if end > start)
    ends = sorted((end, -1) for start, end in spans if end > start)
    most = now = 0
    for _, change in merge(ends, begins):  # of equal moments what ends comes first
        now += change
        most = max(most, now)
    return most


def spread(figures: Iterable[float | None]) -> Spread | None:
    """Return median, minimum and maximum; None means never and counts as infinite, so the median may be infinite.

    Examples
    --------
    >>> spread([3.0, 1.0, 2.0])
    Spread(low=1.0, middle=2.0, high=3.0, reached=3, runs=3)
    >>> spread([1.0, None, None]).middle, spread([None]), spread([1.0, 2.0, None]).high
    (inf, None, 2.0)
    """
    values = list(figures)
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    # Runs that never got there count as later than all that did. Left out, an arm of which most runs fail would look
    # fast.
    padded = [*known, *[math.inf] * (len(values) - len(known))]
    middle = median(padded)
    assert middle is not None
    return Spread(known[0], middle, known[-1], len(known), len(values))


def times_to(arm: Arm, target: float) -> Spread | None:
    """Return the running times, in seconds, after which its runs reached a quality; None if none did."""
    return spread(None if (hit := first_reaching(run, target)) is None else hit[1] for run in arm.runs)


def over_time(curves: Sequence[Sequence[tuple[float, float]]], until: float, most: int = 2000) -> list[Moment]:
    """Return median and range of several step curves, from the time at which half of them have begun.

    Parameters
    ----------
    curves:
        (time in seconds, value) in order of time; a value holds until the next one, the last one for ever.
    until:
        The last time, in seconds.
    most:
        Maximum number of times returned, besides the last.

    Examples
    --------
    >>> over_time([[(1.0, 0.5), (3.0, 0.7)], [(2.0, 0.4)]], 4.0)[1]
    Moment(at_s=2.0, low=0.4, middle=0.45, high=0.5)
    """
    begun = [curve for curve in curves if curve]
    moments = sorted({at for curve in begun for at, _ in curve if at <= until} | {until})
    # More moments than a figure has pixels would only make its file larger.
    every = max(1, math.ceil(len(moments) / most))
    places = [-1] * len(begun)
    found: list[Moment] = []
    # The last moment always, so that all curves end at the same place.
    for at in [*moments[:-1][::every], moments[-1]]:
        for i, curve in enumerate(begun):
            while places[i] + 1 < len(curve) and curve[places[i] + 1][0] <= at:
                places[i] += 1
        values = [curve[place][1] for curve, place in zip(begun, places, strict=True) if place >= 0]
        # Before that the middle would be that of the fastest runs.
        if values and 2 * len(values) >= len(begun):
            middle = median(values)
            assert middle is not None
            found.append(Moment(at, min(values), middle, max(values)))
    return found


def curve_of(run: RunSeries, make: Callable[[list[float]], list[float]]) -> list[tuple[float, float]]:
    """Return (time, value) of a run's qualities in the order of reports, transformed by `make`."""
    values = make([e.quality or 0.0 for e in run.scored])
    return [(e.ended_s or 0.0, value) for e, value in zip(run.scored, values, strict=True)]


def targets_of(arms: Sequence[Arm], most: int = 5) -> list[float]:
    """Return round target qualities, easiest first, between what the worst arm often reaches and the overall best.

    Paper 000 compares searches by the time to such targets (Figure 7).
    """
    rank = arms[0].runs[0].objective.rank
    ranks = [[rank(e.quality or 0.0) for run in arm.runs for e in run.scored] for arm in arms]
    known = [each for each in ranks if each]
    if not known:
        return []
    # What the worst arm often reaches: an easier target would be reached at once, and tell nothing.
    low = min(quantile(each, 0.75) or 0.0 for each in known)
    high = max(max(each) for each in known)
    return [rank(target) for target in round_figures(low, high, most)]


def round_figures(low: float, high: float, most: int) -> list[float]:
    """Return up to `most` evenly spaced round numbers from `low` to `high`; `high` if there is none.

    Examples
    --------
    >>> round_figures(0.871, 0.934, 5)
    [0.88, 0.9, 0.92]
    """
    if not high > low:
        return [high]
    exponent = math.floor(math.log10((high - low) / most))
    # The finest of the round steps that gives no more than `most` targets.
    for digits in (10, 20, 25, 50, 100):
        step = digits * 10.0 ** (exponent - 1)
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < most:
            break
    places = max(0, 2 - exponent)
    return [round(place * step, places) for place in range(first, last + 1)] or [high]


def say_range(arms: Sequence[Arm], what: str) -> str:
    """Return the end of a sentence about how several runs of an arm are drawn; empty if each arm has one run.

    Parameters
    ----------
    what:
        What is drawn: ``lines`` or ``bars``.
    """
    counts = sorted({len(arm.runs) for arm in arms})
    if counts == [1]:
        return ""
    runs = f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    mark = "the shade is" if what == "lines" else "lines go"
    return f"; {what} are medians of {runs}, {mark} from the least to the most"


def _key(run: RunSeries) -> str:
    # The identity holds all that was asked for: what differs in anything but the seed is another arm.
    parts = {name: part for name, part in run.identity.items() if name != "seed"}
    return json.dumps([run.arm or run.label, parts], sort_keys=True)
