"""Drawing candidates that the run has not seen, and random generators that can be stored."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from daskevo.errors import CorruptRecord
from daskevo.search.requests import Stop
from daskevo.space import Candidate, Space
from daskevo.types import JSON

DRAWS = 200
"""Draws before a space is taken to be nearly exhausted; a random draw of a space half seen fails 200 times in
2**200."""

ENUMERABLE = 2_000_000
"""Candidates that may be listed one by one to find the unseen ones (about a second)."""


def unseen(
    space: Space, draw: Callable[[], Candidate], seen: Collection[Candidate], rng: np.random.Generator
) -> Candidate | Stop:
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
    for source in (draw, lambda: space.sample(rng)):
        if len(seen) >= space.size:
            break
        for _ in range(DRAWS):
            candidate = source()
            if candidate not in seen:
                return candidate
    if len(seen) < space.size <= ENUMERABLE:
        left = [candidate for candidate in space.enumerate(ENUMERABLE) if candidate not in seen]
        if left:
            return left[int(rng.integers(len(left)))]
    return Stop(
        "exhausted",
        f"the space {space.name!r} is exhausted: {len(seen)} of its {space.size_text} candidates have been asked for "
        "and no other was found",
    )


def generator(seed: int) -> np.random.Generator:
    """Return the random generator of a strategy (PCG64: its state is two integers, stored exactly)."""
    return np.random.Generator(np.random.PCG64(seed))


def generator_state(rng: np.random.Generator) -> JSON:
    """Return the state of a generator as JSON (its 128-bit integers as text, since not every reader keeps them)."""
    state = rng.bit_generator.state
    return {
        "state": str(state["state"]["state"]),
        "inc": str(state["state"]["inc"]),
        "has_uint32": state["has_uint32"],
        "uinteger": state["uinteger"],
    }


def restore_generator(rng: np.random.Generator, value: JSON) -> None:
    """Set a generator to a stored state; raises CorruptRecord if it is none."""
    try:
        rng.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": int(value["state"]), "inc": int(value["inc"])},
            "has_uint32": int(value["has_uint32"]),
            "uinteger": int(value["uinteger"]),
        }
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptRecord(f"expected the state of a random generator, found {value!r:.200}") from error
