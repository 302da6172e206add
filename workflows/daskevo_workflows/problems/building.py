"""Get a problem's space, and build Keras models of its candidates, for all ways to define a space."""

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
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    import keras

logger = logging.getLogger(__name__)

FIRST = 2_000
"""Candidates tried in order, after random ones failed, before the space counts as having none."""

REMEMBERED = 16


@dataclass
class _LookedInto:
    """What this process knows about a problem.

    Parameters
    ----------
    problem:
        Kept alive, so that no other object gets its id.
    state:
        Digest of its content before any candidate was built.
    leaves_a_trace:
        Whether its state has changed since: then `build` changes objects that its other parts may read.
    loaded:
        Digests of weights seen in a layer at two builds, so they were loaded: no two random draws are equal.
    """

    problem: Problem
    space: ModelSpace
    state: str
    leaves_a_trace: bool = False
    loaded: set[str] = field(default_factory=set)


_problems: OrderedDict[int, _LookedInto] = OrderedDict()


def space_of(problem: Problem) -> ModelSpace:
    """Return a problem's space: the result of its `space`, or else the choices that its `build` asks for."""
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
        If it is a space of hyper-parameters, which a search can't use.
    """
    space = space_of(problem)
    if isinstance(space, ConfigurationSpace):
        raise InvalidProblem(
            f"space() of problem {problem.name!r} is one of hyper-parameters over time, and a search looks for "
            "architectures: tune it with daskevo tune (daskevo_workflows.tune.study)"
        )
    return space


def check_builds(problem: Problem) -> None:
    """Check, before a run begins, that some candidate can be built: the first, random ones, or any one in order.

    Raises
    ------
    InvalidProblem
        If none can; the message has the first one's error and choices.
    """
    # The first candidate in order is tried first: its choices are noted, so that the message can name them.
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
    """Wrap a problem's `build` for a space: if it raises, the candidate is rejected and another one is drawn.

    Each kind of exception is logged once. If it always raises, the space reports that.
    """
    said: set[str] = set()

    @functools.wraps(problem.build)
    def build(choose: Choose) -> Any:
        try:
            return problem.build(choose)
        # Those explain themselves; CandidateRejected is what a `build` raises on purpose.
        except DaskevoError:
            raise
        except (Exception, SystemExit) as error:
            words = f"build() raised {say_error(error)}"
            if "stateless scope" in words:
                words += " (it must return an uncompiled model: compile() is called later)"
            # Ignore numbers, since Keras numbers the names of layers and tensors.
            if (alike := re.sub(r"[0-9]+", "", words)) not in said:
                said.add(alike)
                logger.warning("problem %s: such candidates are drawn again, because %s", problem.name, plain(words))
            raise CandidateRejected(words) from error

    return build


@contextlib.contextmanager
def _without_weights() -> Iterator[None]:
    """Build models without weights in this block, and restore names and Keras settings afterwards."""
    import_keras()
    from daskevo.models import leaving_no_trace, shape_only

    with leaving_no_trace(), shape_only():
        yield


def build_candidate(problem: Problem, candidate: Candidate) -> keras.Model:
    """Return a fresh, uncompiled Keras model from the problem's `build`, or from a space that makes models itself.

    Raises
    ------
    InvalidInput
        If the candidate does not belong to the problem's space.
    CandidateRejected
        If its choices are incompatible.
    InvalidProblem
        If the result is not a Keras model.
    """
    space = space_of(problem)
    return _checked(
        problem, problem.build(space.values(candidate)) if isinstance(space, Space) else space.build(candidate)
    )


def maker_of(problem: Problem, chosen: Mapping[str, JSON], choices: Mapping[str, Any]) -> Callable[[], Any]:
    """Return a function that builds the model of given choices, a fresh one at each call.

    Parameters
    ----------
    chosen:
        One option for every choice of the problem's space, by name.
    choices:
        Argument of a `build` that takes choices by name: the choices, and constants.

    Raises
    ------
    InvalidInput
        If they don't belong to the space, if that makes models itself. Other errors are those of `build_candidate`,
        raised when a model is made.
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


# Weak: a trainer builds models by the hundred, and their layers go with them.
_used: weakref.WeakSet[Any] = weakref.WeakSet()
"""Trainable layers of all candidates built in this process."""


def _refuse_used(problem: Problem, model: Any) -> None:
    """Check that a candidate shares no trainable layer object with an earlier one, which may have trained it.

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
    """Return a candidate's graph and its training key, which is equal for candidates that are trained alike.

    Raises like :func:`graph_of`. A model that can't be compared gets a key of its choices; so do all candidates of a
    problem whose `build` changes state that its other parts may read: an attribute of the problem, a global.
    """
    known = _looked_into(problem)
    with _without_weights():
        from daskevo.models import flatten, given_weights, training_key

        model = build_candidate(problem, candidate)
        flat = flatten(model)
        graph, loaded = flat.graph, given_weights(flat)
        # Looked at after each build until one has left a trace: from then on, that holds in this process.
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
    """Return the layers that get equal weights at each build: in the others `build` itself draws them at random."""
    from daskevo.models import flatten, given_weights

    with _without_weights():
        again = given_weights(flatten(build_candidate(known.problem, candidate)))
    same = {layer: digest for layer, digest in loaded.items() if again.get(layer) == digest}
    known.loaded.update(same.values())
    return same
