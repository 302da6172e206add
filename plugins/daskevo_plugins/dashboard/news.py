"""The message with which a study reports its state to the dashboard: plain data, bounded, validated on arrival."""

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
"""Format version of the message; others are refused."""
MOST_ROWS = 100
"""Maximum number of tree rows, cards, and trainers."""
MOST_MARKS = 2_000
"""Maximum number of spans and goals of a tree together, for a drawing of at most 1 MB."""

Standing = Literal["running", "ended", "stopped", "gone"]


class CardNews(NamedTuple):
    """A figure: name, value and note."""

    name: str
    value: str
    note: str


class TrainerNews(NamedTuple):
    """A trainer's work: its name, the steps, and the trials."""

    trainer: str
    steps: str
    trials: str


@dataclass(frozen=True, slots=True)
class StudyNews:
    """The state of a study at one time.

    Parameters
    ----------
    study:
        Identifies it.
    client:
        Dask's id of the client that runs it.
    name, metric:
        For display.
    standing:
        Running; ended with all results; stopped early; or gone: its process disappeared without notice.
    cards, trainers:
        Its figures, and the work of its trainers.
    tree:
        None if it is too large to send.
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
        """Read and validate a message.

        Raises
        ------
        CorruptRecord
            If it is invalid or too large; nothing of it is kept then.
        LaterVersion
            If it has another format version.
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
    """Tell whether a tree is small enough to send; lengths of texts are not checked here."""
    return len(tree.rows) <= MOST_ROWS and sum(len(row.spans) + len(row.goals) for row in tree.rows) <= MOST_MARKS


def _tree(value: JSON, budget: Budget) -> TreeLayout:
    """Read a tree, checking all texts and list lengths before constructing anything from them."""
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
