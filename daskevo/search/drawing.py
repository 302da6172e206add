"""Draw candidates that the run has not asked for, with random generators that depend only on seed and number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import numpy as np

from daskevo.errors import CandidateRejected
from daskevo.search.requests import Request, Stop, View
from daskevo.space import Candidate, ModelSpace

DRAWS = 200
"""Draws before a space counts as nearly exhausted; if half of it is unseen, 200 draws fail with probability
2**-200."""

FEW = 8
"""Failed draws before the size of the space is looked at, which may take long to count."""

ENUMERABLE = 2_000_000
"""Largest space that is listed to find unseen candidates (about a second)."""


class Seen(Collection[Candidate]):
    """Candidates that a run has asked for, including those of the current answer.

    Parameters
    ----------
    asked:
        `View.asked`; not copied.
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
"""Makes one request of an answer from its offset, its random generator, and the candidates already asked for."""


def one_by_one(view: View, seed: int, make: Next) -> list[Request] | Stop:
    """Answer a view request by request, each for a candidate that was not asked for before."""
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
    """Return a candidate not in `seen`: from `draw`, or a random one, or one from a list of what is left.

    Parameters
    ----------
    draw:
        Makes a proposal, for example a mutation.
    seen:
        Candidates of the run so far, including those of the current answer.

    Returns
    -------
    Candidate | Stop
        `Stop("exhausted", ...)` if the space has no other candidate.
    """
    reason = ""
    # The strategy's proposals first; near a well-explored optimum they may contain nothing new.
    for source in (draw, lambda: space.sample(rng)):
        for drawn in range(DRAWS):
            # Some spaces count candidates by building them, which may take longer than an evaluation.
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
        # Almost all are known by now, so draws would hit the few others only by luck.
        left = [candidate for candidate in space.enumerate(ENUMERABLE) if candidate not in seen]
        if left:
            return left[int(rng.integers(len(left)))]
    return Stop(
        "exhausted",
        f"the space {space.name!r} is exhausted: {len(seen)} of its {space.size} candidates have been asked for "
        f"and no other was found{reason}",
    )


def is_spent(space: ModelSpace, seen: Collection[Candidate]) -> bool:
    """Tell whether a space is known to have no more candidates than those seen; doesn't count any further."""
    most = space.size_until(len(seen)).most
    return most is not None and len(seen) >= most


def generator(seed: int, number: int) -> np.random.Generator:
    """Return the random generator of a request; it depends only on the run's seed and the request's number."""
    # The pair seeds it, not a sum: runs of neighbouring seeds would share the generators of all but one request.
    return np.random.Generator(np.random.PCG64([seed, number]))
