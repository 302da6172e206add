"""Sequences put one after the other: each later one counts its own steps from where it begins."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daskevo.errors import InvalidInput
from daskevo.tuning.exact import Floats
from daskevo.tuning.sequences import Linear
from daskevo.tuning.step_sequence import StepSequence, check_steps


@dataclass(frozen=True)
class Joined(StepSequence):
    """Sequences one after the other; see :func:`concatenate`.

    Parameters
    ----------
    pieces:
        The step at which each begins, the first at 0, and the sequence. Pieces that are joined themselves are taken
        apart.

    Raises
    ------
    InvalidInput
        If a piece begins before the one before has: their steps would overlap.
    """

    kind = "joined"
    pieces: tuple[tuple[int, StepSequence], ...]

    def __post_init__(self) -> None:
        if not isinstance(self.pieces, (tuple, list)) or not self.pieces:
            raise InvalidInput("sequences are joined from at least one piece, a step and a sequence")
        pieces = [_piece(piece) for piece in self.pieces]
        begins = [begin for begin, _ in pieces]
        if begins[0] != 0:
            raise InvalidInput(f"the first sequence begins at step {begins[0]}, expected 0")
        for earlier, later in pairwise(begins):
            if later <= earlier:
                raise InvalidInput(
                    f"a sequence begins at step {later}, where the one before begins at {earlier}: each begins later"
                )
        ends = [*begins[1:], None]
        flat = [
            (begin + inner, part)
            for (begin, sequence), end in zip(pieces, ends, strict=True)
            for inner, part in (sequence.pieces if isinstance(sequence, Joined) else ((0, sequence),))
            if end is None or begin + inner < end
        ]
        object.__setattr__(self, "pieces", tuple(flat))

    def evaluate(self, start: int, stop: int) -> Floats:
        begins = [begin for begin, _ in self.pieces]
        first = bisect_right(begins, start) - 1
        found = np.empty(stop - start)
        for (begin, sequence), end in zip(self.pieces[first:], [*begins[first + 1 :], stop], strict=True):
            first_step, last_step = max(start, begin), min(stop, end)
            if first_step >= last_step:
                break
            found[first_step - start : last_step - start] = sequence.evaluate(first_step - begin, last_step - begin)
        return found


def _piece(piece: object) -> tuple[int, StepSequence]:
    match piece:
        case (begin, StepSequence() as sequence):
            return check_steps(begin, "step at which a sequence begins"), sequence
    raise InvalidInput(f"expected a piece (step, sequence), such as (100, Constant(0.1)), found {piece!r:.80}")


def concatenate(first: StepSequence, *later: tuple[int, StepSequence]) -> Joined:
    """Return `first`, and from given steps on other sequences, which count their steps from there.

    Parameters
    ----------
    later:
        Each the step at which it begins, in steps of the whole, and a sequence.

    Raises
    ------
    InvalidInput
        If one begins before, or where, the one before does.

    Examples
    --------
    >>> from daskevo.tuning import Constant, Exponential
    >>> concatenate(Constant(1.0), (2, Exponential(0.5, 0.5))).values(0, 5).tolist()
    [1.0, 1.0, 0.5, 0.25, 0.125]
    """
    return Joined(((0, first), *later))


def warmup(start: float, steps: int, then: StepSequence) -> Joined:
    """Return a line from `start` to where `then` begins, in `steps` steps, and then `then`.

    Examples
    --------
    >>> from daskevo.tuning import Constant
    >>> warmup(0.0, 4, then=Constant(1.0)).values(0, 6).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    if not isinstance(then, StepSequence):
        raise InvalidInput(f"after a warmup comes a sequence, not {then!r:.80}")
    return concatenate(Linear(start, then(0), steps), (steps, then))
