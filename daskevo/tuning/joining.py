"""Concatenated sequences; each later one counts its own steps from where it begins."""

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
    """Consecutive sequences; see :func:`concatenate`.

    Parameters
    ----------
    pieces:
        The step at which each sequence begins (the first at 0), and the sequence. Nested joined sequences are
        flattened.

    Raises
    ------
    InvalidInput
        If a piece does not begin after the one before it.
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
        # Flat, so that reading a stored sequence needs no recursion; pieces that would begin after their end never
        # count.
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
            # This piece, and all after it, begin at `stop` or later.
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
    """Return `first`, followed from the given steps on by other sequences, which count their steps from there.

    Parameters
    ----------
    later:
        Pairs of the step at which it begins, in steps of the whole, and a sequence.

    Raises
    ------
    InvalidInput
        If one does not begin after the one before it.

    Examples
    --------
    >>> from daskevo.tuning import Constant, Exponential
    >>> concatenate(Constant(1.0), (2, Exponential(0.5, 0.5))).values(0, 5).tolist()
    [1.0, 1.0, 0.5, 0.25, 0.125]
    """
    return Joined(((0, first), *later))


def warmup(start: float, steps: int, then: StepSequence) -> Joined:
    """Return a linear warm-up from `start` to the first value of `then` in `steps` steps, followed by `then`.

    Examples
    --------
    >>> from daskevo.tuning import Constant
    >>> warmup(0.0, 4, then=Constant(1.0)).values(0, 6).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    """
    if not isinstance(then, StepSequence):
        raise InvalidInput(f"after a warmup comes a sequence, not {then!r:.80}")
    return concatenate(Linear(start, then(0), steps), (steps, then))
