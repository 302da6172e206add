"""Drawing candidates that the run has not seen, by random generators that depend on nothing but seed and number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np

from daskevo.errors import CandidateRejected
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace

DRAWS = 200
"""Draws before a space is taken to be nearly exhausted; a random draw of a space half seen fails 200 times in
2**200."""

FEW = 8
"""Draws that may find nothing new before it is looked at how many candidates the space has."""

ENUMERABLE = 2_000_000
"""Candidates that may be listed one by one to find the unseen ones (about a second)."""


class Seen(Collection[Candidate]):
    """Candidates that a run has asked for, those of the current answer included.

    Parameters
    ----------
    asked:
        Of the view; not copied.
    """

    def __init__(self, asked: Collection[Candidate]) -> None:
        self._asked = asked
        self._new: set[Candidate] = set()

    def __contains__(self, candidate: object) -> bool:
        return candidate in self._new or candidate in self._asked

    def __iter__(self) -> Iterator[Candidate]:
        yield from self._asked
        yield from self._new

    def __len__(self) -> int:
        return len(self._asked) + len(self._new)

    def add(self, candidate: Candidate) -> None:
        self._new.add(candidate)


Next = Callable[[int, np.random.Generator, Seen], "Request | Stop"]
"""Makes one request of an answer: by its offset, its random generator, and what must not be asked again."""


def one_by_one(view: View, seed: int, make: Next) -> list[Request] | Stop:
    """Answer a view with one request after another, none for a candidate that was asked before."""
    requests: list[Request] = []
    seen = Seen(view.asked)
    for offset in range(view.wanted):
        made = make(offset, generator(seed, view.next_number + offset), seen)
        if isinstance(made, Stop):
            return requests or made
        seen.add(made.candidate)
        requests.append(made)
    return requests


def unseen(space: ModelSpace, draw: Callable[[], Candidate], seen: Seen, rng: np.random.Generator) -> Candidate | Stop:
    """Return a candidate that is not in `seen`: drawn, else random, else picked from a list of what is left.

    Parameters
    ----------
    draw:
        Makes one proposal, such as a mutation.
    seen:
        Candidates of the run so far, those of the current answer included.

    Returns
    -------
    Candidate | Stop
        `Stop("exhausted", ...)` if the space holds nothing else.
    """
    reason = ""
    for source in (draw, lambda: space.sample(rng)):
        for drawn in range(DRAWS):
            # Where candidates are counted by building them, a count may take longer than an evaluation.
            if drawn == FEW and is_spent(space, seen):
                break
            try:
                candidate = source()
            except CandidateRejected as error:
                reason = f"; the last one was rejected because {error.reason}"
                break
            if candidate not in seen:
                return candidate
    most = space.size.most
    if most is not None and len(seen) < most <= ENUMERABLE:
        left = [candidate for candidate in space.enumerate(ENUMERABLE) if candidate not in seen]
        if left:
            return left[int(rng.integers(len(left)))]
    return Stop(
        "exhausted",
        f"the space {space.name!r} is exhausted: {len(seen)} of its {space.size} candidates have been asked for "
        f"and no other was found{reason}",
    )


def is_spent(space: ModelSpace, seen: Collection[Candidate]) -> bool:
    """Tell whether a space is known to hold no other candidates than those seen; counted no further than that."""
    most = space.size_until(len(seen)).most
    return most is not None and len(seen) >= most


def generator(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of a request: by the run's seed and the request's number, and nothing else."""
    return np.random.Generator(np.random.PCG64([seed, number]))
