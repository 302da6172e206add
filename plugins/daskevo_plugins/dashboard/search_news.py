"""What a search says of itself to be shown: plain data, bounded, and checked before anything is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from daskevo.types import JSON
from daskevo_plugins.dashboard.message_checks import (
    Budget,
    count,
    fields_of,
    flag,
    just,
    number,
    one_of,
    or_none,
    seconds,
    some,
)
from daskevo_plugins.dashboard.news import Standing

FORMAT = 2
"""Of a message; one of another format is refused."""
MOST_POINTS = 600
"""Evaluations that are sent of a search; of a longer one the last half of them, and some of those before."""
MOST_STEPS = 200
"""Of the running best."""
MOST_TRAINERS = 100
MOST_PHASES = 16
MOST_FACTS = 12
MOST_KINDS = 8

Doing = Literal["evaluating", "free", "restarting", "stuck", "paused", "silent"]


class Point(NamedTuple):
    """A finished evaluation.

    Parameters
    ----------
    at_s:
        When it ended, in seconds of the search's running time.
    number:
        Of its request.
    frozen_share:
        0 to 1.
    inherited, is_member:
        Whether it inherited a prefix, and whether its model is in the population now.
    """

    at_s: float
    number: int
    quality: float
    frozen_share: float
    inherited: bool
    is_member: bool


class TrainerRow(NamedTuple):
    """A trainer: what it does right now, what exactly, since how many seconds, and what it has done.

    Parameters
    ----------
    spent_s:
        Seconds by phase, in the order of the news' phases.
    """

    trainer: str
    doing: Doing
    what: str
    for_s: float
    evaluations: int
    spent_s: tuple[float, ...]


class PhaseRow(NamedTuple):
    """A phase of evaluations: how many had it, and its seconds."""

    phase: str
    times: int
    spent_s: float


class ShownUnit(NamedTuple):
    """Units of one kind, by what became of them: those that are ready wait for a trainer."""

    kind: str
    ready: int
    under_way: int
    done: int
    failed: int
    lost: int
    cancelled: int


class Best(NamedTuple):
    """The best evaluation so far."""

    number: int
    model_id: str
    quality: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchNews:
    """A search at one moment.

    Parameters
    ----------
    search:
        Tells it apart from all others.
    client:
        Dask's id of the client whose process leads it.
    name, metric, direction, facts:
        For people; facts are pairs of a word and what it is: problem, strategy, policy.
    standing, said:
        How it stands, and why it ended.
    evaluations, finished, failed, rejected, stopped, duplicates:
        The budget, and what has spent it (finished) or not.
    under_way, slots:
        Evaluations with trainers, and how many there could be at once.
    running_s:
        The search's running time, pauses between its processes left out.
    left_s, deadline_s:
        Seconds until its budget is spent, by the last evaluations, and until its process must be done.
    population:
        Members; None: the strategy has none.
    stored_bytes, full_bytes, models:
        What its repository holds, and what full copies would take; None: not asked yet.
    """

    search: str
    client: str
    name: str
    metric: str
    direction: Literal["max", "min"]
    facts: tuple[tuple[str, str], ...]
    standing: Standing
    said: str
    evaluations: int
    finished: int
    failed: int
    rejected: int
    stopped: int
    duplicates: int
    under_way: int
    slots: int
    running_s: float
    left_s: float | None
    deadline_s: float | None
    population: int | None
    best: Best | None
    stored_bytes: int | None
    full_bytes: int | None
    models: int | None
    points: tuple[Point, ...]
    best_line: tuple[tuple[float, float], ...]
    phases: tuple[PhaseRow, ...]
    units: tuple[ShownUnit, ...]
    trainers: tuple[TrainerRow, ...]

    @property
    def key(self) -> str:
        return self.search

    @property
    def is_over(self) -> bool:
        return self.standing != "running"

    def to_json(self) -> dict[str, JSON]:
        """Return it as a message."""
        return {"format": FORMAT, **{name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}}

    @classmethod
    def from_json(cls, value: JSON) -> SearchNews:
        """Read a message.

        Raises
        ------
        CorruptRecord
            If it is none, or larger than it may be; then nothing of it is kept.
        LaterVersion
            If it is of another format.
        """
        fields = fields_of(value, "a search", FORMAT, _FIELDS)
        budget = Budget("a search's news", MOST_POINTS + MOST_STEPS + MOST_TRAINERS * MOST_PHASES)
        phases = tuple(_phase(row, budget) for row in some(fields["phases"], MOST_PHASES))
        checked: dict[str, Any] = {name: budget.text(fields[name]) for name in _TEXTS}
        checked |= {name: count(fields[name]) for name in _COUNTS}
        checked |= {name: or_none(count, fields[name]) for name in _COUNTS_OR_NONE}
        return cls(
            **checked,
            direction=one_of(("max", "min"), fields["direction"]),
            facts=tuple(_pair(row, budget) for row in some(fields["facts"], MOST_FACTS)),
            standing=one_of(get_args(Standing), fields["standing"]),
            running_s=seconds(fields["running_s"]),
            left_s=or_none(seconds, fields["left_s"]),
            deadline_s=or_none(number, fields["deadline_s"]),
            best=or_none(lambda row: _best(row, budget), fields["best"]),
            points=tuple(map(_point, budget.marks(some(fields["points"], MOST_POINTS)))),
            best_line=tuple(map(_step, budget.marks(some(fields["best_line"], MOST_STEPS)))),
            phases=phases,
            units=tuple(_unit(row, budget) for row in some(fields["units"], MOST_KINDS)),
            trainers=tuple(_trainer(row, budget, len(phases)) for row in some(fields["trainers"], MOST_TRAINERS)),
        )


_FIELDS = {"format", *SearchNews.__dataclass_fields__}
_TEXTS = ("search", "client", "name", "metric", "said")
_COUNTS_OR_NONE = ("population", "stored_bytes", "full_bytes", "models")
_COUNTS = ("evaluations", "finished", "failed", "rejected", "stopped", "duplicates", "under_way", "slots")


def _plain(value: Any) -> JSON:
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _pair(row: Any, budget: Budget) -> tuple[str, str]:
    name, words = just(row, 2)
    return budget.text(name), budget.text(words)


def _point(row: Any) -> Point:
    at_s, place, quality, frozen, inherited, is_member = just(row, 6)
    share = min(1.0, seconds(frozen))
    return Point(seconds(at_s), count(place), number(quality), share, flag(inherited), flag(is_member))


def _step(row: Any) -> tuple[float, float]:
    at_s, quality = just(row, 2)
    return seconds(at_s), number(quality)


def _best(row: Any, budget: Budget) -> Best:
    place, model_id, quality = just(row, 3)
    return Best(count(place), budget.text(model_id), number(quality))


def _phase(row: Any, budget: Budget) -> PhaseRow:
    phase, times, spent_s = just(row, 3)
    return PhaseRow(budget.text(phase), count(times), seconds(spent_s))


def _unit(row: Any, budget: Budget) -> ShownUnit:
    kind, *counts = just(row, 7)
    return ShownUnit(budget.text(kind), *map(count, counts))


def _trainer(row: Any, budget: Budget, phases: int) -> TrainerRow:
    trainer, doing, what, for_s, evaluations, spent_s = just(row, 6)
    return TrainerRow(
        budget.text(trainer),
        one_of(get_args(Doing), doing),
        budget.text(what),
        seconds(for_s),
        count(evaluations),
        tuple(map(seconds, budget.marks(just(spent_s, phases)))),
    )
