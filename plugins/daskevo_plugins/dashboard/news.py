"""What a study says of itself to be shown: plain data, bounded, and checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, Literal, NamedTuple, get_args

from daskevo.errors import CorruptRecord
from daskevo.tuning.tree_layout import TreeLayout
from daskevo.types import JSON
from daskevo_plugins.dashboard.message_checks import LONGEST, Budget, fields_of, just, one_of, some

__all__ = ["LONGEST", "MOST_MARKS", "MOST_ROWS", "CardNews", "Standing", "StudyNews", "TrainerNews", "can_be_sent"]

FORMAT = 1
"""Of a message; one of another format is refused."""
MOST_ROWS = 100
"""Rows of a tree, of cards and of trainers."""
MOST_MARKS = 2_000
"""Spans and goals of a tree together: a drawing of 1 MB at most."""

Standing = Literal["running", "ended", "stopped", "gone"]


class CardNews(NamedTuple):
    """A figure: what it is, its value, and a note."""

    name: str
    value: str
    note: str


class TrainerNews(NamedTuple):
    """What a trainer does: its name, the steps, and for whom."""

    trainer: str
    steps: str
    trials: str


@dataclass(frozen=True, slots=True)
class StudyNews:
    """A study at one moment.

    Parameters
    ----------
    study:
        Tells it apart from all others.
    client:
        Dask's id of the client whose process leads it.
    name, metric:
        For people.
    standing:
        It is running; it ended with all answers; it was stopped before; its process has gone without a word.
    cards, trainers:
        Its figures, and what its trainers do.
    tree:
        None if it is too large to be sent.
    """

    study: str
    client: str
    name: str
    metric: str
    standing: Standing
    cards: tuple[CardNews, ...]
    trainers: tuple[TrainerNews, ...]
    tree: TreeLayout | None

    @property
    def key(self) -> str:
        return self.study

    @property
    def is_over(self) -> bool:
        return self.standing != "running"

    def to_json(self) -> dict[str, JSON]:
        """Return it as a message."""
        return {
            "format": FORMAT,
            "study": self.study,
            "client": self.client,
            "name": self.name,
            "metric": self.metric,
            "standing": self.standing,
            "cards": list(map(list, self.cards)),
            "trainers": list(map(list, self.trainers)),
            "tree": None if self.tree is None else self.tree.to_json(),
        }

    @classmethod
    def from_json(cls, value: JSON) -> StudyNews:
        """Read a message.

        Raises
        ------
        CorruptRecord
            If it is none, or larger than it may be; then nothing of it is kept.
        LaterVersion
            If it is of another format.
        """
        fields = fields_of(value, "a study", FORMAT, _FIELDS)
        budget = Budget("a study's news", MOST_MARKS)
        tree = None if fields["tree"] is None else _tree(fields["tree"], budget)
        return cls(
            study=budget.text(fields["study"]),
            client=budget.text(fields["client"]),
            name=budget.text(fields["name"]),
            metric=budget.text(fields["metric"]),
            standing=one_of(get_args(Standing), fields["standing"]),
            cards=tuple(CardNews(*row) for row in rows_of_three(fields["cards"], budget)),
            trainers=tuple(TrainerNews(*row) for row in rows_of_three(fields["trainers"], budget)),
            tree=tree,
        )


_FIELDS = {"format", *StudyNews.__dataclass_fields__}


def can_be_sent(tree: TreeLayout) -> bool:
    """Tell whether a tree is small enough; of texts that are too long nothing is said."""
    return len(tree.rows) <= MOST_ROWS and sum(len(row.spans) + len(row.goals) for row in tree.rows) <= MOST_MARKS


def _tree(value: JSON, budget: Budget) -> TreeLayout:
    """Read a tree of which all texts, and the lengths of all lists, are looked at before anything is made of them."""
    if not isinstance(value, Mapping):
        raise CorruptRecord(f"expected a layout of a tree, found {repr(value)}")
    budget.text(value.get("unit"))
    for row in some(value.get("rows"), MOST_ROWS):
        if not isinstance(row, Mapping):
            raise CorruptRecord(f"expected a row of a tree, found {repr(row)}")
        budget.text(row.get("words"))
        for span in budget.marks(row.get("spans")):
            trials, trainer = just(span, 5)[3:]
            _each(trials, budget)
            if trainer is not None:
                budget.text(trainer)
        for goal in budget.marks(row.get("goals")):
            _each(just(goal, 5)[2], budget)
    return TreeLayout.from_json(value)


def _each(trials: Any, budget: Budget) -> None:
    for trial in some(trials, MOST_ROWS):
        budget.text(trial)


def rows_of_three(values: Any, budget: Budget) -> list[list[str]]:
    """Return rows of three texts each."""
    return [[budget.text(word) for word in just(row, 3)] for row in some(values, MOST_ROWS)]
