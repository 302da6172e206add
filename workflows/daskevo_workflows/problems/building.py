"""A problem's space, and from a candidate to its Keras model, whichever way the problem says its space."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import AbstractContextManager
from typing import Any

from daskevo.graph import ArchitectureGraph
from daskevo.space import Builder, Candidate, ModelSpace, Space
from daskevo_workflows.problems.protocol import Problem
from daskevo_workflows.quiet import import_keras

REMEMBERED = 16
_spaces: OrderedDict[int, tuple[Problem, ModelSpace]] = OrderedDict()


def space_of(problem: Problem) -> ModelSpace:
    """Return a problem's space: what its `space` returns, or, if it has none, what its `build` asks for."""
    known = _spaces.get(id(problem))
    if known is None:
        # The problem is kept with it, so that no other one gets its id.
        known = _spaces[id(problem)] = problem, _space(problem)
        while len(_spaces) > REMEMBERED:
            _spaces.popitem(last=False)
    return known[1]


def _space(problem: Problem) -> ModelSpace:
    if not hasattr(problem, "space"):
        return Builder(problem.name, problem.build, around=_without_weights)
    space: ModelSpace = problem.space()
    if isinstance(space, Builder) and space.around is None:
        space.around = _without_weights
    return space


def _without_weights() -> AbstractContextManager[Any]:
    import_keras()
    from daskevo.models import shape_only

    return shape_only()


def build_candidate(problem: Problem, candidate: Candidate) -> Any:
    """Return a fresh, uncompiled Keras model: of the problem's `build`, or of the space where that makes models itself.

    Raises
    ------
    InvalidInput
        If the candidate isn't of the problem's space.
    CandidateRejected
        If its choices don't go together.
    """
    space = space_of(problem)
    if isinstance(space, Space):
        return problem.build(space.values(candidate))
    return space.build(candidate)


def graph_of(problem: Problem, candidate: Candidate) -> ArchitectureGraph:
    """Return a candidate's architecture graph; raises what `build_candidate` raises.

    Raises
    ------
    CannotFlatten
        If its model has none.
    """
    with _without_weights():
        from daskevo.models import flatten

        return flatten(build_candidate(problem, candidate)).graph
