"""Which layers of two models stand in each other's place: the longest common subsequence of the two. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

Pair = tuple[int | None, int | None]
"""A place in A and the place in B that stands for it; None where there is none."""

MOST_CELLS = 4_000_000
"""Of the table of two sequences; of longer ones common blocks of kinds are looked for, whatever their settings."""


class Trait(NamedTuple):
    """What is compared of a layer: its kind, and its kind with all settings, as texts."""

    kind: str
    settings: str


def matched(first: Sequence[Trait], second: Sequence[Trait]) -> list[tuple[int, int]]:
    """Return places in two sequences that go together, in order: as many of equal settings as can be, then of one kind.

    Examples
    --------
    >>> a, b, c = Trait("Dense", "8"), Trait("Dense", "16"), Trait("Dropout", "0.5")
    >>> matched([a, c, b], [a, b, c, b])
    [(0, 0), (1, 2), (2, 3)]
    >>> matched([a, c], [c, b])
    [(1, 0)]
    """
    # Equal beginnings and ends belong together in any best answer: the table is for what is between.
    head = 0
    while head < min(len(first), len(second)) and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < min(len(first), len(second)) - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    middle = _middle(first[head : len(first) - tail], second[head : len(second) - tail])
    return [
        *((place, place) for place in range(head)),
        *((head + mine, head + theirs) for mine, theirs in middle),
        *((len(first) - place, len(second) - place) for place in range(tail, 0, -1)),
    ]


def in_order(first: int, second: int, pairs: Mapping[int, int]) -> list[Pair]:
    """Return all places of two sequences in the order of A; those of B alone follow the one before them in B.

    Parameters
    ----------
    first, second:
        How many places each has.
    pairs:
        Place in A -> place in B.

    Examples
    --------
    >>> in_order(3, 3, {0: 0, 2: 2})
    [(0, 0), (1, None), (None, 1), (2, 2)]
    """
    order: list[Pair] = [(mine, pairs.get(mine)) for mine in range(first)]
    taken = set(pairs.values())
    for theirs in range(second):
        if theirs in taken:
            continue
        place = 0 if theirs == 0 else 1 + next(at for at, pair in enumerate(order) if pair[1] == theirs - 1)
        while place < len(order) and order[place][1] is None:
            place += 1
        order.insert(place, (None, theirs))
    return order


def _middle(first: Sequence[Trait], second: Sequence[Trait]) -> list[tuple[int, int]]:
    if len(first) * len(second) > MOST_CELLS:
        ours, others = ([trait.kind for trait in sequence] for sequence in (first, second))
        # Without autojunk, which in long sequences ignores what is frequent: a kind of layer is.
        blocks = SequenceMatcher(None, ours, others, autojunk=False).get_matching_blocks()
        return [(mine + more, theirs + more) for mine, theirs, size in blocks for more in range(size)]
    # More kinds alike never outweigh one layer that is alike in all.
    much = min(len(first), len(second)) + 1
    worth = [[0 if one.kind != other.kind else 1 + much * (one == other) for other in second] for one in first]
    # Filled from the end, so that the walk below goes forwards.
    best = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for mine in range(len(first) - 1, -1, -1):
        here, below = best[mine], best[mine + 1]
        for theirs in range(len(second) - 1, -1, -1):
            here[theirs] = max(below[theirs], here[theirs + 1], below[theirs + 1] + worth[mine][theirs])
    found = []
    mine = theirs = 0
    while mine < len(first) and theirs < len(second):
        gain = worth[mine][theirs]
        if gain and best[mine][theirs] == best[mine + 1][theirs + 1] + gain:
            found.append((mine, theirs))
            mine, theirs = mine + 1, theirs + 1
        elif best[mine][theirs] == best[mine + 1][theirs]:
            mine += 1
        else:
            theirs += 1
    return found
