"""What a search says of itself to be shown: plain data, bounded, and checked before anything is done with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from daskevo.errors import CorruptRecord
from daskevo.types import JSON
from daskevo_plugins.dashboard import message_checks as k  # kinds of fields
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
        return k.as_message(self, FORMAT)

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
        checked = k.read_news(value, "a search", FORMAT, _KINDS, k.Budget("a search's news"))
        for trainer in checked["trainers"]:
            # A trainer's seconds have no names of their own: they are those of the phases, in their order.
            if len(trainer.spent_s) != len(checked["phases"]):
                raise CorruptRecord(f"expected {len(checked['phases'])} values, found {len(trainer.spent_s)}")
        return cls(**checked)


def _share(value: Any, budget: k.Budget) -> float:
    return min(1.0, k.seconds(value, budget))


_DOING = k.one_of(get_args(Doing))
_KINDS: dict[str, k.Kind[Any]] = {
    "search": k.text,
    "client": k.text,
    "name": k.text,
    "metric": k.text,
    "direction": k.one_of(("max", "min")),
    "facts": k.many(k.row(tuple, k.text, k.text), MOST_FACTS),
    "standing": k.one_of(get_args(Standing)),
    "said": k.text,
    **dict.fromkeys(
        ("evaluations", "finished", "failed", "rejected", "stopped", "duplicates", "under_way", "slots"), k.count
    ),
    **dict.fromkeys(("population", "stored_bytes", "full_bytes", "models"), k.or_none(k.count)),
    "running_s": k.seconds,
    "left_s": k.or_none(k.seconds),
    "deadline_s": k.or_none(k.number),  # below 0 once a deadline has passed
    "best": k.or_none(k.row(Best._make, k.count, k.text, k.number)),
    "points": k.many(k.row(Point._make, k.seconds, k.count, k.number, _share, k.flag, k.flag), MOST_POINTS),
    "best_line": k.many(k.row(tuple, k.seconds, k.number), MOST_STEPS),
    "phases": k.many(k.row(PhaseRow._make, k.text, k.count, k.seconds), MOST_PHASES),
    "units": k.many(k.row(ShownUnit._make, k.text, *[k.count] * 6), MOST_KINDS),
    "trainers": k.many(
        k.row(TrainerRow._make, k.text, _DOING, k.text, k.seconds, k.count, k.many(k.seconds, MOST_PHASES)),
        MOST_TRAINERS,
    ),
}
"""Field -> what it may be."""
