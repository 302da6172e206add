"""Lay out a progress tree for drawing: steps from left to right, one row per branch.

A branch is drawn below its parent. Children that diverge later are nearer to it, so that no line from a parent down to
a child crosses a row that has begun. If there are too many rows, branches with the same parent are folded into one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from reprlib import repr  # of hostile data, too deep for Python's own
from typing import Any, get_args

from daskevo.errors import CorruptRecord, InvalidInput
from daskevo.tuning.progress_tree import Goal, Progress, ProgressTree, Span
from daskevo.types import JSON

MOST_ROWS = 60
"""Most rows that can be read on one page."""

NAMED = 5
"""Trials of a span that are named when the tree is sent or drawn; of the others only the number is given."""

_FIRST: Sequence[Progress] = ("running", "waiting", "failed", "done")
"""Order of precedence: what a folded row shows at a step where its branches differ."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the drawing: one branch, or several folded into one.

    Parameters
    ----------
    parent:
        The row that it diverges from; None for a root.
    start, stop, spans, goals:
        Those of the branch. A folded row has steps where any of its branches has, and no goals.
    needed:
        Number of trials that need, or needed, each span; 0 if unknown. # (n_spans,)
    words:
        How its hyper-parameters differ from its parent's.
    trials:
        Number of trials that need, or needed, any of it.
    branches:
        Number of branches in this row.
    """

    parent: int | None
    start: int
    stop: int
    spans: tuple[Span, ...]
    goals: tuple[Goal, ...]
    needed: tuple[int, ...]
    words: str
    trials: int
    branches: int = 1


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Rows from top to bottom.

    Parameters
    ----------
    rows:
        Parents above their children.
    stop:
        The last step of all rows.
    unit:
        Unit of a step.
    """

    rows: tuple[Row, ...]
    stop: int
    unit: str

    def to_json(self) -> JSON:
        """Return the layout as JSON; if a span has many trials, only some are named."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: JSON) -> TreeLayout:
        """Read what `to_json` made, through msgpack too; raises CorruptRecord on anything else."""
        try:
            return cls(
                tuple(_row(number, row) for number, row in enumerate(value["rows"])),
                _whole(value["stop"]),
                str(value["unit"]),
            )
        except (InvalidInput, LookupError, TypeError, ValueError) as error:
            raise CorruptRecord(f"expected a layout of a tree, found {repr(value)}: {error}") from error


def tree_layout(tree: ProgressTree, most_rows: int = MOST_ROWS) -> TreeLayout:
    """Lay out a tree in `most_rows` rows at most.

    Branches that lead to the best trial come first, then roots, then their children, and so on.

    Examples
    --------
    >>> from daskevo.tuning import Configuration, Constant, SearchPlan, Trajectory, concatenate
    >>> from daskevo.tuning.progress_tree import Asked, progress_tree
    >>> rates = [Constant(0.1), *(concatenate(Constant(0.1), (step, Constant(0.01))) for step in (4, 6))]
    >>> trials = [Trajectory("m", Configuration({"lr": rate})) for rate in rates]
    >>> tree = progress_tree(SearchPlan(), [Asked(str(n), trial, 10) for n, trial in enumerate(trials)])
    >>> [(row.parent, row.start, row.stop, row.branches) for row in tree_layout(tree).rows]
    [(None, 0, 10, 1), (0, 6, 10, 1), (0, 4, 10, 1)]
    >>> [(row.parent, row.start, row.stop, row.branches) for row in tree_layout(tree, 2).rows]
    [(None, 0, 10, 1), (0, 4, 10, 2)]
    """
    if most_rows < 1:
        raise InvalidInput(f"most_rows={most_rows}: use 1 or more")
    branches = tree.branches
    order = _by_interest(tree)
    shown: set[int] = set()
    groups: dict[int | None, list[int]] = {}
    # The folded need rows, too, and how many depends on which branches are shown: so it is tried out.
    for count in range(min(len(order), most_rows), -1, -1):
        shown = set(order[:count])
        groups = _hidden(tree, shown)
        if count + len(groups) <= most_rows:
            break
    below: dict[int | None, list[tuple[int, int | None]]] = {}  # parent -> where it parts, and which; None: the folded
    for number in sorted(shown):
        below.setdefault(branches[number].parent, []).append((branches[number].start, number))
    for parent, several in groups.items():
        below.setdefault(parent, []).append((min(branches[number].start for number in several), None))
    rows: list[Row] = []
    left: list[tuple[int | None, int | None, int | None]] = [(None, None, number) for _, number in _turned(below, None)]
    while left:
        row, parent, place = left.pop()
        if place is None:
            rows.append(_folded(tree, groups[parent], row))
        else:
            rows.append(_shown(tree, place, row))
            left += [(len(rows) - 1, place, number) for _, number in _turned(below, place)]
    return TreeLayout(tuple(rows), max((row.stop for row in rows), default=0), tree.unit)


def _turned(
    below: Mapping[int | None, list[tuple[int, int | None]]], parent: int | None
) -> list[tuple[int, int | None]]:
    """Return the children of a branch, the lowest row first: the child that diverges first."""
    last = float("inf")
    return sorted(below.get(parent, ()), key=lambda one: (one[0], -(last if one[1] is None else one[1])))


def _by_interest(tree: ProgressTree) -> list[int]:
    """Return all branches, those that most deserve a row first; none comes before its parent."""
    branches = tree.branches
    depths: list[int] = []
    for branch in branches:
        depths.append(0 if branch.parent is None else depths[branch.parent] + 1)
    leads = [any(goal.best for goal in branch.goals) for branch in branches]
    for number in range(len(branches) - 1, -1, -1):
        parent = branches[number].parent
        if leads[number] and parent is not None:
            leads[parent] = True
    return sorted(range(len(branches)), key=lambda number: (not leads[number], depths[number], number))


def _hidden(tree: ProgressTree, shown: set[int]) -> dict[int | None, list[int]]:
    """Return the branches without a row, grouped by their nearest ancestor that has one."""
    groups: dict[int | None, list[int]] = {}
    homes: dict[int, int | None] = {}
    for number, branch in enumerate(tree.branches):
        parent = branch.parent
        homes[number] = number if number in shown else None if parent is None else homes[parent]
        if number not in shown:
            groups.setdefault(homes[number], []).append(number)
    return groups


def _shown(tree: ProgressTree, number: int, parent: int | None) -> Row:
    branch = tree.branches[number]
    words = ", ".join(f"{name} {_say(*values)}" for name, values in branch.changes.items())
    spans = tuple(map(_named, branch.spans))
    goals = tuple(map(_named, branch.goals))
    needed = tuple(len(span.trials) for span in branch.spans)
    return Row(parent, branch.start, branch.stop, spans, goals, needed, words, len(branch.trials))


def _folded(tree: ProgressTree, numbers: Sequence[int], parent: int | None) -> Row:
    branches = [tree.branches[number] for number in numbers]
    all_spans = [span for branch in branches for span in branch.spans]
    # Between two cuts no branch changes, so one word describes each.
    cuts = sorted({step for span in all_spans for step in (span.start, span.stop)})
    spans: list[Span] = []
    for begin, end in pairwise(cuts):
        here = {span.progress for span in all_spans if span.start < end and begin < span.stop}
        if not here:
            continue
        progress = next(word for word in _FIRST if word in here)
        start = begin
        if spans and spans[-1].progress == progress and spans[-1].stop == begin:
            start = spans.pop().start
        spans.append(Span(start, end, progress, ()))
    trials = {trial for branch in branches for trial in branch.trials}
    counts = {word: sum(branch.spans[-1].progress == word for branch in branches) for word in _FIRST}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return Row(parent, cuts[0], cuts[-1], tuple(spans), (), (0,) * len(spans), words, len(trials), len(branches))


def _named(what: Any) -> Any:
    """Return it with the names of at most `NAMED` trials."""
    if len(what.trials) <= NAMED:
        return what
    return what._replace(trials=(*what.trials[: NAMED - 1], f"{len(what.trials) - NAMED + 1} more"))


def _say(first: JSON, last: JSON) -> str:
    said = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in (first, last)]
    return said[0] if said[0] == said[1] else " → ".join(said)


def _row(number: int, value: JSON) -> Row:
    parent = value["parent"]
    if parent is not None and _whole(parent) >= number:
        raise InvalidInput(f"row {number} has no row {parent} above it")
    spans = tuple(
        Span(_whole(start), _whole(stop), _progress(word), _texts(trials), None if who is None else str(who))
        for start, stop, word, trials, who in value["spans"]
    )
    if not 0 < len(spans) == len(value["needed"]):
        raise InvalidInput(f"row {number} has {len(spans)} spans, and {len(value['needed'])} numbers of trials")
    return Row(
        parent,
        _whole(value["start"]),
        _whole(value["stop"]),
        spans,
        tuple(
            Goal(_whole(step), _progress(word), _texts(trials), None if got is None else float(got), bool(best))
            for step, word, trials, got, best in value["goals"]
        ),
        tuple(map(_whole, value["needed"])),
        str(value["words"]),
        _whole(value["trials"]),
        _whole(value["branches"]),
    )


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise InvalidInput(f"{repr(value)} is no whole number from 0")
    return value


def _progress(value: Any) -> Progress:
    if value not in get_args(Progress):
        raise InvalidInput(f"{repr(value)} is no progress")
    found: Progress = value
    return found


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value))
