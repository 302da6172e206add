"""The contract of model spaces, for ours and for yours: call :func:`check_space` in a test."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice

import numpy as np

from daskevo.errors import CandidateRejected, InvalidInput
from daskevo.space import Candidate, Choice, ModelSpace, neighbours

ENUMERATED = 2_000
"""Candidates that are enumerated to see that there are as many as the space says."""
NEIGHBOURS = 10
"""Neighbours of a candidate that are looked at."""


def check_space(make: Callable[[], ModelSpace], *, draws: int = 30, seed: int = 0) -> None:
    """Check what every model space promises; raises AssertionError on the first promise that is broken.

    Parameters
    ----------
    make:
        Makes the space anew, the same each time.
    draws:
        How many candidates are drawn.
    seed:
        Of the draws.
    """
    space = make()
    assert space.name
    assert make() == space, "a space made again must be equal"
    assert json.loads(json.dumps(space.to_json())) == make().to_json(), "to_json must be JSON, the same each time"
    rng = np.random.default_rng(seed)
    candidates = [space.sample(rng) for _ in range(draws)]
    again = np.random.default_rng(seed)
    assert [make().sample(again) for _ in range(min(draws, 5))] == candidates[:5], "a seed must give the same draws"
    for candidate in candidates:
        _check_round_trips(space, make(), candidate)
    _check_draws(space)
    _check_mutation(space, candidates, rng)
    _check_crossover(space, candidates, rng)
    _check_repair(space, candidates, rng)
    _check_neighbours(space, candidates[0])
    _check_size(space, candidates)


def _check_round_trips(space: ModelSpace, other: ModelSpace, candidate: Candidate) -> None:
    assert Candidate.from_json(json.loads(json.dumps(candidate.to_json()))) == candidate
    assert space.decode(candidate.to_json()) == candidate
    assert other.decode(candidate.to_json()) == candidate, "a space made again must know the candidate"
    choices = space.choices_of(candidate)
    assert len(choices) == len(candidate.values)
    assert len({choice.name for choice in choices}) == len(choices), "names of choices must differ"
    values = space.values(candidate)
    taken = {choice.name: choice.options[index] for choice, index in zip(choices, candidate.values, strict=True)}
    assert values == taken, "values must be the options taken"
    assert space.candidate(values) == candidate, "values must give the candidate back"
    answers = iter(candidate.values)
    assert space.draw(lambda choice: next(answers)) == candidate, "the same answers must give the same candidate"


def _check_draws(space: ModelSpace) -> None:
    for wrong in (-1, 10**6):
        try:
            space.draw(lambda choice, wrong=wrong: wrong)  # type: ignore[misc]
        except InvalidInput:
            continue
        raise AssertionError(f"an answer of {wrong} must be refused")
    try:
        space.candidate({"a choice that no space has": 1})
    except InvalidInput:
        return
    raise AssertionError("values of another space must be refused")


def _check_mutation(space: ModelSpace, candidates: list[Candidate], rng: np.random.Generator) -> None:
    if space.size.count == 1:
        return
    # All choices alike, early ones more often, late ones more often.
    for beta in (1.0, 0.1, 10.0):
        for candidate in candidates:
            child = space.mutate(candidate, rng, beta)
            assert child != candidate, "a mutation must change the candidate"
            space.check(child)
    seeds = np.random.default_rng(1), np.random.default_rng(1)
    one, other = (space.mutate(candidates[0], generator) for generator in seeds)
    assert one == other, "a seed must give the same mutation"
    places = [place for place, choice in enumerate(space.choices_of(candidates[0])) if len(choice.options) > 1]
    for place in places[:5]:
        option = (candidates[0].values[place] + 1) % len(space.choices_of(candidates[0])[place].options)
        try:
            changed = space.change(candidates[0], place, option, rng)
        except CandidateRejected:
            continue
        assert changed.values[place] == option
        assert changed.values[:place] == candidates[0].values[:place], "what was asked before must stay"


def _check_crossover(space: ModelSpace, candidates: list[Candidate], rng: np.random.Generator) -> None:
    for one, other in zip(candidates, reversed(candidates), strict=True):
        child = space.crossover(one, other, rng)
        space.check(child)
        options = [space.values(parent) for parent in (one, other)]
        for name, option in space.values(child).items():
            known = [parent[name] for parent in options if name in parent]
            fits = [each for each in known if _choice(space, child, name).find(each) is not None]
            assert not fits or option in fits, "a crossover takes what one of its parents has"
    assert space.crossover(candidates[0], candidates[0], rng) == candidates[0]


def _choice(space: ModelSpace, candidate: Candidate, name: str) -> Choice:
    return next(choice for choice in space.choices_of(candidate) if choice.name == name)


def _check_repair(space: ModelSpace, candidates: list[Candidate], rng: np.random.Generator) -> None:
    for candidate in candidates:
        assert space.repair(candidate, rng) == candidate, "what is valid needs no repair"
        # Indices that no choice has: nothing of it can be kept.
        broken = Candidate(tuple(index + 10**5 for index in candidate.values), candidate.names)
        space.check(space.repair(broken, rng))
        space.check(space.repair(Candidate((), ()), rng))


def _check_neighbours(space: ModelSpace, candidate: Candidate) -> None:
    taken = space.values(candidate)
    met: set[Candidate] = set()
    for other in islice(neighbours(space, candidate), NEIGHBOURS):
        space.check(other)
        assert other not in met, "neighbours must differ"
        met.add(other)
        options = space.values(other)
        changed = [name for name in taken if name in options and taken[name] != options[name]]
        assert changed, "a neighbour must take another option somewhere"
        # Once an option is another, what is asked later may not offer those that were taken.
        kept = [each for each in changed[1:] if _choice(space, other, each).find(taken[each]) is not None]
        assert not kept, "a neighbour must keep all options but one that it can"


def _check_size(space: ModelSpace, candidates: list[Candidate]) -> None:
    size = space.size
    most = size.most
    if most is None or most > ENUMERATED:
        # Of a space of which only a lower bound is known no more than that many are sure to come before it refuses.
        few = {"at least": size.count or 0}.get(size.kind, ENUMERATED)
        try:
            for number, _ in enumerate(space.enumerate(most=min(few, 50)), start=1):
                assert number <= 50, "enumerate must stop at `most`"
        except InvalidInput:
            return
        raise AssertionError("enumerate must refuse more than `most` candidates")
    every = list(space.enumerate())
    assert len(every) == len(set(every)), "enumerate must yield each candidate once"
    assert size.kind != "exact" or len(every) == size.count, "there must be as many candidates as the size says"
    assert set(candidates) <= set(every), "enumerate must yield all that are drawn"
    for candidate in every[:50]:
        space.check(candidate)
