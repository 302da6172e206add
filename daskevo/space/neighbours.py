"""Neighbours of a candidate: those that differ in one choice, as used by local search."""

from __future__ import annotations

from collections.abc import Iterator

from daskevo.errors import CandidateRejected
from daskevo.space.candidate import Candidate
from daskevo.space.choice import Choice
from daskevo.space.model_space import ModelSpace, Taken


def neighbours(space: ModelSpace, candidate: Candidate) -> Iterator[Candidate]:
    """Yield every candidate with a different option at exactly one of the candidate's choices.

    All other choices keep their options as far as possible. If the different option adds new choices, there is one
    neighbour for each way to answer them, generated lazily. Rejected candidates are left out. Being a neighbour is
    symmetric.

    Raises
    ------
    InvalidInput, CandidateRejected
        If the candidate doesn't belong to the space; raised at once.

    Examples
    --------
    >>> from daskevo.space import Builder, Choice, Space
    >>> space = Space("tiny", (Choice("units", (16, 32, 64)), Choice("activation", ("relu", "tanh"))))
    >>> found = neighbours(space, space.candidate({"units": 32, "activation": "relu"}))
    >>> [list(space.values(each).values()) for each in found]
    [[16, 'relu'], [64, 'relu'], [32, 'tanh']]

    >>> def build(choose):
    ...     return [choose(f"units {number}", (8, 16)) for number in range(choose("layers", (1, 2)))]
    >>> space = Builder("chains", build)
    >>> [space.build(each) for each in neighbours(space, space.candidate({"layers": 1, "units 0": 16}))]
    [[16, 8], [16, 16], [8]]
    """
    # A generator would raise only when it is iterated; `choices_of` is called here and raises at once.
    return _neighbours(space, candidate, space.choices_of(candidate))


def _neighbours(space: ModelSpace, candidate: Candidate, choices: tuple[Choice, ...]) -> Iterator[Candidate]:
    taken = Taken(choices, candidate.values)
    for place, choice in enumerate(choices):
        for option in range(len(choice.options)):
            if option != candidate.values[place]:
                yield from _changed(space, taken, place, option)


def _changed(space: ModelSpace, taken: Taken, place: int, option: int) -> Iterator[Candidate]:
    """Yield candidates with an option at a place, otherwise unchanged, for every answer to new choices."""
    answers: list[int] = []
    while True:
        asked = 0
        sizes: list[int] = []

        def pick(choice: Choice, answers: list[int] = answers, sizes: list[int] = sizes) -> int:
            nonlocal asked
            asked += 1
            if asked == place + 1:
                return option
            if (known := taken.find(choice)) is not None:
                return known
            sizes.append(len(choice.options))
            return answers[len(sizes) - 1] if len(sizes) <= len(answers) else 0

        try:
            found = space.draw(pick)
        except CandidateRejected:
            pass
        else:
            yield found
        # A rejected draw may end before all new choices were asked, so there are as many answers as were asked for.
        # As an odometer counts: drop answers that are at their last option, then advance the one before them.
        answers = [*answers, *[0] * len(sizes)][: len(sizes)]
        while answers and answers[-1] + 1 == sizes[len(answers) - 1]:
            answers.pop()
        if not answers:
            return
        answers[-1] += 1
