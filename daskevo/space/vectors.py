"""Encode candidates as rows of numbers, for surrogate models and your own samplers, and decode them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.product import Space, check_static


def to_vectors(space: Space, candidates: Iterable[Candidate]) -> NDArray[np.float64]:
    """Return candidates as rows of numbers from 0 to 1.

    The columns of a choice follow those of the choice before it:

    - ordered numbers, and any two options: one column, from 0 for the first option to 1 for the last in even steps (as
      ConfigSpace encodes ordinal hyperparameters);
    - other options: one column each, 1 for the chosen one and 0 for the others (one-hot);
    - a single option: no column.

    Returns
    -------
    numpy.ndarray
        float64 # (n_candidates, n_columns)

    Raises
    ------
    InvalidInput
        If choices of the space depend on each other (a `Builder`), because candidates then have no common columns; or
        if a candidate doesn't belong to the space.
    CandidateRejected
        If the space rejects one.

    Examples
    --------
    >>> from daskevo.space import Choice
    >>> units = Choice("units", (16, 32, 64))
    >>> space = Space("tiny", (units, Choice("activation", ("relu", "tanh", None)), Choice("skip", (False, True))))
    >>> candidate = space.candidate({"units": 32, "activation": None, "skip": True})
    >>> to_vectors(space, [candidate])
    array([[0.5, 0. , 0. , 1. , 1. ]])
    >>> from_vectors(space, [[0.6, 0.1, 0.2, 0.7, 0.9]]) == [candidate]
    True
    """
    check_static(space, "their vectors have no columns in common")
    rows = list(candidates)
    for candidate in rows:
        space.check(candidate)
    values = np.array([candidate.values for candidate in rows], dtype=np.intp).reshape(len(rows), len(space.choices))
    vectors = np.zeros((len(rows), sum(map(_width, space.choices))))
    for choice, columns, index in zip(space.choices, _columns(space.choices), values.T, strict=True):
        if _width(choice) == 1:
            vectors[:, columns.start] = index / (len(choice.options) - 1)
        elif _width(choice):
            vectors[np.arange(len(rows)), columns.start + index] = 1.0
    return vectors


def from_vectors(space: Space, vectors: ArrayLike) -> list[Candidate]:
    """Return the candidates nearest to rows of numbers, which may be any.

    With one column that is the nearest option, below 0 the first and above 1 the last; otherwise the option with the
    largest number, ties going to the first.

    Parameters
    ----------
    vectors:
        Finite numbers, in the columns of `to_vectors`. # (n_candidates, n_columns)

    Raises
    ------
    InvalidInput
        If the shape is wrong, a number isn't finite, or choices of the space depend on each other.
    CandidateRejected
        If the space rejects one; the message says which row, so that the others can be decoded without it.
    """
    check_static(space, "their vectors have no columns in common")
    rows = _checked(space, vectors)
    values = np.zeros((len(rows), len(space.choices)), dtype=np.intp)
    for place, (choice, columns) in enumerate(zip(space.choices, _columns(space.choices), strict=True)):
        if _width(choice) == 1:
            # Clipped first: surrogate models propose points beyond the ends, too.
            values[:, place] = np.rint(np.clip(rows[:, columns.start], 0, 1) * (len(choice.options) - 1))
        elif _width(choice):
            values[:, place] = rows[:, columns].argmax(axis=1)
    candidates = [Candidate(tuple(row)) for row in values.tolist()]
    for number, candidate in enumerate(candidates):
        try:
            space.check(candidate)
        except CandidateRejected as error:
            raise CandidateRejected(f"row {number}: {error.message}", reason=error.reason) from error
    return candidates


def _checked(space: Space, vectors: ArrayLike) -> NDArray[np.float64]:
    columns = sum(map(_width, space.choices))
    try:
        rows: NDArray[Any] = np.asarray(vectors, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"vectors of space {space.name!r} are numbers in {columns} columns: {error}") from error
    if rows.ndim != 2 or rows.shape[1] != columns:
        raise InvalidInput(
            f"vectors of space {space.name!r} have shape (n, {columns}), and not {rows.shape}; one alone is a row, too"
        )
    if not np.isfinite(rows).all():
        raise InvalidInput(f"vectors of space {space.name!r} hold {rows[~np.isfinite(rows)][0]}: give finite numbers")
    return rows


def _width(choice: Choice) -> int:
    """Return the number of columns of a choice."""
    # With two options the second column would always be 1 less the first.
    if len(choice.options) <= 2:
        return len(choice.options) - 1
    return 1 if choice.is_ordered else len(choice.options)


def _columns(choices: Sequence[Choice]) -> list[slice]:
    ends = np.cumsum([0, *map(_width, choices)]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]
