"""The message with which a study reports its state to the dashboard: plain data, bounded, validated on arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from daskevo.tuning.tree_layout import TreeLayout
from daskevo.types import JSON
from daskevo_plugins.dashboard import message_checks as k  # kinds of fields
from daskevo_plugins.dashboard.message_checks import LONGEST

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
        return k.as_message(self, FORMAT)

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
        return cls(**k.read_news(value, "a study", FORMAT, _KINDS, k.Budget("a study's news", MOST_MARKS)))


_TRIALS = k.many(k.text, MOST_ROWS)
_ROW = {
    "words": k.text,
    "spans": k.many(k.row(tuple, k.anything, k.anything, k.anything, _TRIALS, k.or_none(k.text))),
    "goals": k.many(k.row(tuple, k.anything, k.anything, _TRIALS, k.anything, k.anything)),
}
_TREE = k.fields("a layout of a tree", {"unit": k.text, "rows": k.many(k.fields("a row of a tree", _ROW), MOST_ROWS)})
"""Texts and lengths of a tree's lists; the rest is checked by :meth:`TreeLayout.from_json`."""


def _tree(value: Any, budget: k.Budget) -> TreeLayout:
    _TREE(value, budget)  # first, so that nothing is made of what is too large
    return TreeLayout.from_json(value)


_KINDS: dict[str, k.Kind[Any]] = {
    "study": k.text,
    "client": k.text,
    "name": k.text,
    "metric": k.text,
    "standing": k.one_of(get_args(Standing)),
    "cards": k.many(k.row(CardNews._make, k.text, k.text, k.text), MOST_ROWS),
    "trainers": k.many(k.row(TrainerNews._make, k.text, k.text, k.text), MOST_ROWS),
    "tree": k.or_none(_tree),
}
"""Field -> what it may be."""


def can_be_sent(tree: TreeLayout) -> bool:
    """Tell whether a tree is small enough to send; lengths of texts are not checked here."""
    return len(tree.rows) <= MOST_ROWS and sum(len(row.spans) + len(row.goals) for row in tree.rows) <= MOST_MARKS
