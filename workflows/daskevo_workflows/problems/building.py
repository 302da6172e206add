"""A problem's space, and from a candidate to its Keras model, whichever way the problem says its space."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from daskevo.errors import CandidateRejected, DaskevoError, InvalidProblem
from daskevo.graph import ArchitectureGraph
from daskevo.space import Builder, Candidate, Choice, Choose, ModelSpace, Space
from daskevo.space.mutated import MutatedGraphs
from daskevo.tuning import ConfigurationSpace
from daskevo.types import JSON
from daskevo_plugins.formatting import plain
from daskevo_workflows.evaluation.failures import say_error, user_code
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.problems.content import state_of
from daskevo_workflows.problems.protocol import Problem

logger = logging.getLogger(__name__)

FIRST = 2_000
"""Candidates of which one must be possible, after some random ones were not."""

REMEMBERED = 16


@dataclass
class _LookedInto:
    """What is known of a problem.

    Parameters
    ----------
    problem:
        Kept, so that no other one gets its id.
    state:
        Digest of what it consisted of before a candidate was built.
    leaves_a_trace:
        Whether it was seen in another state since: `build` changes what its other parts may read.
    loaded:
        Digests of weights that `build` has loaded into a layer more than once: no two draws are equal.
    """

    problem: Problem
    space: ModelSpace
    state: str
    leaves_a_trace: bool = False
    loaded: set[str] = field(default_factory=set)


_problems: OrderedDict[int, _LookedInto] = OrderedDict()


def space_of(problem: Problem) -> ModelSpace:
    """Return a problem's space: what its `space` returns, or, if it has none, what its `build` asks for."""
    return _looked_into(problem).space


def _looked_into(problem: Problem) -> _LookedInto:
    known = _problems.get(id(problem))
    if known is None:
        known = _problems[id(problem)] = _LookedInto(problem, _space(problem), state_of(problem))
        while len(_problems) > REMEMBERED:
            _problems.popitem(last=False)
    return known


def space_to_search(problem: Problem) -> ModelSpace:
    """Return a problem's space of architectures.

    Raises
    ------
    InvalidProblem
        If it is one of hyper-parameters, which no search looks at.
    """
    space = space_of(problem)
    if isinstance(space, ConfigurationSpace):
        raise InvalidProblem(
            f"space() of problem {problem.name!r} is one of hyper-parameters over time, and a search looks for "
            "architectures: tune it with daskevo tune (daskevo_workflows.tune.study)"
        )
    return space


def check_builds(problem: Problem) -> None:
    """See that some candidate can be made, before there is a run of it: the first, a random one, or any that is found.

    Raises
    ------
    InvalidProblem
        If none can, with what stood in the way of the first, and which choices that has.
    """
    space, taken = space_of(problem), dict[str, JSON]()

    def first(choice: Choice) -> int:
        taken[choice.name] = choice.options[0]
        return 0

    try:
        space.draw(first)
    except CandidateRejected as cause:
        with contextlib.suppress(CandidateRejected):
            space.sample(np.random.default_rng(0))
            return
        if space.find(FIRST) is None if isinstance(space, Builder) else space.size.count == 0:
            raise _nothing_built(problem, cause.reason, taken) from cause


def _nothing_built(problem: Problem, reason: str, taken: Mapping[str, JSON]) -> InvalidProblem:
    choices = ", ".join(f"{name}={value!r:.60}" for name, value in taken.items())
    at = f" The first has {plain(choices, 600)}." if taken else ""
    return InvalidProblem(
        f"no candidate of problem {problem.name!r} can be built, the first because {plain(reason, 1000)}.{at} Nothing "
        "was evaluated: mend build(), and give the same command or call again",
        problem=problem.name,
        choices=dict(taken),
    )


def _space(problem: Problem) -> ModelSpace:
    if not hasattr(problem, "space"):
        return Builder(problem.name, _drawn_again(problem), around=_without_weights)
    with user_code(f"problem {problem.name!r}: space()", passing=(DaskevoError,)):
        space: ModelSpace = problem.space()
    if isinstance(space, Builder) and space.around is None:
        space.around = _without_weights
    return space


def _drawn_again(problem: Problem) -> Callable[[Choose], Any]:
    """Return a problem's `build` as a space takes it: where it raises, those choices don't go together.

    What it raised is said once. If it always raises, the space says so.
    """
    said: set[str] = set()

    @functools.wraps(problem.build)
    def build(choose: Choose) -> Any:
        try:
            return problem.build(choose)
        except DaskevoError:
            raise
        except (Exception, SystemExit) as error:
            words = f"build() raised {say_error(error)}"
            if "stateless scope" in words:
                words += " (it must return an uncompiled model: compile() is called later)"
            # Whatever layers and tensors are called this time.
            if (alike := re.sub(r"[0-9]+", "", words)) not in said:
                said.add(alike)
                logger.warning("problem %s: such candidates are drawn again, because %s", problem.name, plain(words))
            raise CandidateRejected(words) from error

    return build


@contextlib.contextmanager
def _without_weights() -> Iterator[None]:
    """Build without weights, and leave names and Keras' settings as they were for the next candidate."""
    import_keras()
    from daskevo.models import leaving_no_trace, shape_only

    with leaving_no_trace(), shape_only():
        yield


def build_candidate(problem: Problem, candidate: Candidate) -> Any:
    """Return a fresh, uncompiled Keras model: of the problem's `build`, or of the space where that makes models itself.

    Raises
    ------
    InvalidInput
        If the candidate isn't of the problem's space.
    CandidateRejected
        If its choices don't go together.
    InvalidProblem
        If it isn't a Keras model that comes of it.
    """
    space = space_of(problem)
    return _checked(
        problem, problem.build(space.values(candidate)) if isinstance(space, Space) else space.build(candidate)
    )


def maker_of(problem: Problem, chosen: Mapping[str, JSON], choices: Mapping[str, Any]) -> Callable[[], Any]:
    """Return what builds the model of some choices, a fresh one each time.

    Parameters
    ----------
    chosen:
        One option for every choice of the problem's space, by name.
    choices:
        What a problem's `build` is given that takes choices by name: these, and constants besides.

    Raises
    ------
    InvalidInput
        If they aren't of the problem's space, where that makes models itself; all else as `build_candidate`, when a
        model is made.
    """
    space = space_of(problem)
    if isinstance(space, Space | ConfigurationSpace):
        return lambda: _checked(problem, problem.build(choices))
    candidate = space.candidate(chosen)
    return lambda: _checked(problem, space.build(candidate))


def _checked(problem: Problem, model: Any) -> Any:
    from keras import Model

    if not isinstance(model, Model):
        hint = ": does it end with `return`?" if model is None else ""
        raise InvalidProblem(
            f"build() of problem {problem.name!r} must return a keras.Model, not {type(model).__name__}{hint}"
        )
    _refuse_used(problem, model)
    return model


_used: weakref.WeakSet[Any] = weakref.WeakSet()
"""Layers of the candidates that were built in this process, those that training changes."""


def _refuse_used(problem: Problem, model: Any) -> None:
    """See that a candidate has no layer that an earlier one had, trained by it perhaps.

    Raises
    ------
    InvalidProblem
    """
    from daskevo.models.keras_private import with_sublayers

    layers = [layer for layer in with_sublayers(model) if layer.trainable_weights]
    again = next((layer for layer in layers if layer in _used), None)
    if again is not None:
        raise InvalidProblem(
            f"build() of problem {problem.name!r} uses the layer {again.name!r} again, which an earlier candidate had: "
            "each would begin with what the one before has trained. Make layers within build(), or freeze what all "
            "have in common (layer.trainable = False)",
            problem=problem.name,
        )
    _used.update(layers)


def graph_of(problem: Problem, candidate: Candidate) -> ArchitectureGraph:
    """Return a candidate's architecture graph; raises what `build_candidate` raises.

    Raises
    ------
    CannotFlatten
        If its model has none.
    """
    return graph_and_key(problem, candidate)[0]


def graph_and_key(problem: Problem, candidate: Candidate) -> tuple[ArchitectureGraph, bytes]:
    """Return a candidate's graph, and what its training is beyond that: equal for candidates that are trained alike.

    Raises as :func:`graph_of`. A model that can't be compared has the key of its candidate alone; and so has each of a
    problem whose `build` changes what its other parts may read: an attribute of the problem, a global.
    """
    known = _looked_into(problem)
    with _without_weights():
        from daskevo.models import flatten, given_weights, training_key

        model = build_candidate(problem, candidate)
        flat = flatten(model)
        graph, loaded = flat.graph, given_weights(flat)
        if not known.leaves_a_trace and state_of(problem) != known.state:
            known.leaves_a_trace = True
            logger.info("build() of problem %s changes what others read: candidates go by choices", problem.name)
        space = known.space
        named = isinstance(space, Space | Builder) and not isinstance(space, MutatedGraphs)
        key = None if known.leaves_a_trace else training_key(model, graph, names=named)
    if not known.loaded.issuperset(loaded.values()):
        loaded = _given_again(known, candidate, loaded)
    return graph.started(loaded), json.dumps(candidate.to_json()).encode() if key is None else key


def _given_again(known: _LookedInto, candidate: Candidate, loaded: Mapping[int, str]) -> dict[int, str]:
    """Return which layers get the same weights whenever the candidate is built: others are drawn by `build` itself."""
    from daskevo.models import flatten, given_weights

    with _without_weights():
        again = given_weights(flatten(build_candidate(known.problem, candidate)))
    same = {layer: digest for layer, digest in loaded.items() if again.get(layer) == digest}
    known.loaded.update(same.values())
    return same
