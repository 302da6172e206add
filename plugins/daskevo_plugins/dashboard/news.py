"""What a study says of itself to be shown: plain data, bounded, and checked before anything is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, Literal, NamedTuple, get_args

from daskevo.errors import CorruptRecord, LaterVersion
from daskevo.tuning.tree_layout import TreeLayout
from daskevo.types import JSON

FORMAT = 1
"""Of a message; one of another format is refused."""
MOST_ROWS = 100
"""Rows of a tree, of cards and of trainers."""
MOST_MARKS = 2_000
"""Spans and goals of a tree together: a drawing of 1 MB at most."""
MOST_LETTERS = 200_000
"""Of all texts together."""
LONGEST = 500
"""Letters of one text."""

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
        if not isinstance(value, Mapping) or type(value.get("format")) is not int:
            raise CorruptRecord(f"expected news of a study, found {repr(value)}")
        if value["format"] != FORMAT:
            raise LaterVersion(
                f"news of a study in format {value['format']} can't be shown here, only {FORMAT}: start the scheduler "
                "with the same daskevo"
            )
        if value.keys() != _FIELDS:
            raise CorruptRecord(f"expected news with {sorted(_FIELDS)}, found {repr(sorted(map(str, value)))}")
        budget = _Budget()
        tree = None if value["tree"] is None else _tree(value["tree"], budget)
        standing = value["standing"]
        if standing not in get_args(Standing):
            raise CorruptRecord(f"expected how a study stands, found {repr(standing)}")
        return cls(
            study=budget.text(value["study"]),
            client=budget.text(value["client"]),
            name=budget.text(value["name"]),
            metric=budget.text(value["metric"]),
            standing=standing,
            cards=tuple(CardNews(*row) for row in _rows(value["cards"], budget)),
            trainers=tuple(TrainerNews(*row) for row in _rows(value["trainers"], budget)),
            tree=tree,
        )


_FIELDS = {"format", *StudyNews.__dataclass_fields__}


class _Budget:
    """What the texts and marks of one message may still take."""

    def __init__(self) -> None:
        self._letters = MOST_LETTERS
        self._marks = MOST_MARKS

    def text(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > LONGEST:
            raise CorruptRecord(f"expected a text of at most {LONGEST} letters, found {repr(value)}")
        self._letters -= len(value)
        if self._letters < 0:
            raise CorruptRecord(f"the texts of a study's news have more than {MOST_LETTERS:,} letters")
        return value

    def marks(self, values: Any) -> Sequence[Any]:
        if not isinstance(values, (list, tuple)):
            raise CorruptRecord(f"expected a list of a row's spans or goals, found {repr(values)}")
        self._marks -= len(values)
        if self._marks < 0:
            raise CorruptRecord(f"the tree of a study has more than {MOST_MARKS:,} spans and goals")
        return values


def can_be_sent(tree: TreeLayout) -> bool:
    """Tell whether a tree is small enough; of texts that are too long nothing is said."""
    return len(tree.rows) <= MOST_ROWS and sum(len(row.spans) + len(row.goals) for row in tree.rows) <= MOST_MARKS


def _tree(value: JSON, budget: _Budget) -> TreeLayout:
    """Read a tree of which all texts, and the lengths of all lists, are looked at before anything is made of them."""
    if not isinstance(value, Mapping):
        raise CorruptRecord(f"expected a layout of a tree, found {repr(value)}")
    budget.text(value.get("unit"))
    for row in _list(value.get("rows")):
        if not isinstance(row, Mapping):
            raise CorruptRecord(f"expected a row of a tree, found {repr(row)}")
        budget.text(row.get("words"))
        for span in budget.marks(row.get("spans")):
            trials, trainer = _end(span, 5)[3:]
            _each(trials, budget)
            if trainer is not None:
                budget.text(trainer)
        for goal in budget.marks(row.get("goals")):
            _each(_end(goal, 5)[2], budget)
    return TreeLayout.from_json(value)


def _each(trials: Any, budget: _Budget) -> None:
    for trial in _list(trials):
        budget.text(trial)


def _list(values: Any) -> Sequence[Any]:
    if not isinstance(values, (list, tuple)) or len(values) > MOST_ROWS:
        raise CorruptRecord(f"expected a list of at most {MOST_ROWS}, found {repr(values)}")
    return values


def _end(values: Any, length: int) -> Sequence[Any]:
    if not isinstance(values, (list, tuple)) or len(values) != length:
        raise CorruptRecord(f"expected {length} values, found {repr(values)}")
    return values


def _rows(values: Any, budget: _Budget) -> list[list[str]]:
    return [[budget.text(word) for word in _end(row, 3)] for row in _list(values)]
