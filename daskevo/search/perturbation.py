"""Candidates near a given one: each hyper-parameter moves to a neighbouring option, or is sometimes drawn again."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from daskevo.errors import CandidateRejected
from daskevo.space import Candidate, Choice, ModelSpace
from daskevo.space.model_space import TRIES, KeptAnswers, drawn


def perturbed(
    space: ModelSpace,
    candidate: Candidate,
    rng: np.random.Generator,
    resample: float = 0.25,
    only: Collection[str] | None = None,
) -> Candidate:
    """Return a candidate near a given one.

    Parameters
    ----------
    resample:
        Probability that a choice takes any of its options; otherwise it takes a neighbouring one, in the order in which
        the space lists them (Jaderberg et al., section 4.1: factors of 1.2 and 0.8, or resampling).
    only:
        Names of the choices that may change; None = all.

    Returns
    -------
    Candidate
        A different one; the same if nothing can change, or the space rejected too many in a row.
    """
    choices = space.choices_of(candidate)

    def pick(choice: Choice) -> int:
        index = kept(choice)
        if len(choice.options) == 1 or (only is not None and choice.name not in only):
            return index
        # A neighbour in the list replaces the paper's factor, since options are a finite list and need not be numbers.
        return drawn(choice, rng) if rng.random() < resample else _beside(index, len(choice.options), rng)

    for _ in range(TRIES):
        kept = KeptAnswers(choices, candidate.values, rng)
        try:
            made = space.draw(pick)
        except CandidateRejected:
            continue
        if made != candidate:
            return made
    return candidate


def _beside(index: int, count: int, rng: np.random.Generator) -> int:
    """Return the index before or after, each equally likely; at an end there is only one."""
    if index in (0, count - 1):
        return 1 if index == 0 else count - 2
    return index + (1 if rng.random() < 0.5 else -1)
