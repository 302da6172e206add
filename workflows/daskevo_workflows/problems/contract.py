"""Check that a problem fulfils its contract: call :func:`check_problem` before a long search, or in a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from daskevo.errors import CannotFlatten, CannotRebuild, DaskevoError, InvalidInput, InvalidProblem
from daskevo.space import Candidate
from daskevo.types import Objective
from daskevo_plugins.formatting import plain, say_count, say_quality
from daskevo_workflows.evaluation.failures import shown, user_code
from daskevo_workflows.evaluation.quiet_import import import_keras
from daskevo_workflows.problems.building import build_candidate, space_of
from daskevo_workflows.problems.data_parts import check_data, described, first, is_usual
from daskevo_workflows.problems.protocol import Data, Problem
from daskevo_workflows.problems.reference import load_problem

if TYPE_CHECKING:
    from daskevo.models import FlatModel

COUNTED = 20
"""Maximum number of candidates built one by one to count a space."""
SHOWN = 100
"""Characters shown of a candidate's choices, at most."""


def check_problem(
    problem: str | Path | Problem, *, candidates: int = 3, batches: int = 2, seed: int = 0, **settings: Any
) -> Problem:
    """Check everything a search relies on, by building a few candidates and training each for a few batches.

    ::

        from daskevo_workflows.problems import check_problem
        check_problem("moons.py")

    Parameters
    ----------
    problem:
        As for `load_problem`: a path that ends in ``.py``, a problem object, or a built-in name.
    candidates:
        Number of candidates drawn from the space.
    batches:
        Number of batches to train each one with.
    seed:
        Seed for drawing candidates.
    **settings:
        Settings of a built-in problem.

    Returns
    -------
    Problem
        The problem, which passed all checks.

    Raises
    ------
    InvalidProblem
        At the first check that fails; the message names the part of the problem and the candidate.
    UnknownProblem
        If there is no such name or file.
    """
    loaded = load_problem(problem, **settings)
    look_at(loaded, candidates=candidates, batches=batches, seed=seed)
    return loaded


def look_at(
    problem: Problem,
    *,
    candidates: int = 3,
    batches: int = 2,
    seed: int = 0,
    say: Callable[[str], None] = lambda words: None,
) -> None:
    """Run the checks of :func:`check_problem`, and call `say` with each result as soon as it is known.

    Raises
    ------
    InvalidProblem
    """
    import_keras()
    from daskevo.models import leaving_no_trace

    space = space_of(problem)
    with user_code(f"problem {problem.name!r}: space()", passing=(DaskevoError,)):
        is_same = not hasattr(problem, "space") or problem.space() == space
    with user_code(f"problem {problem.name!r}: build()", passing=(DaskevoError,)):
        size = space.size_until(COUNTED)
    # Trainers load the problem themselves, and read a candidate's values by their own space.
    _check(is_same, problem, "space() must return the same space at each call")
    say(f"space: {size} candidates" + (", the same at each call" if hasattr(problem, "space") else ""))
    data = _checked_data(problem)
    few_words = described(data.validation).removesuffix(" samples")
    say(f"data: {described(data.train)} to train with, {few_words} to score with")
    few = first(data, problem.batch_size * batches, batches)
    rng = np.random.default_rng(seed)
    for number in range(candidates):
        with user_code(f"problem {problem.name!r}: build()", passing=(DaskevoError,)):
            candidate = space.sample(rng)
        values = space.values(candidate)
        try:
            with leaving_no_trace():
                found = _check_candidate(problem, candidate, few, data)
        except InvalidProblem as error:
            raise InvalidProblem(
                f"{error.message} (candidate {values})", candidate=candidate.to_json(), **error.facts
            ) from error
        say(f"candidate {number + 1} of {candidates}, {plain(values, SHOWN)}: {found}")


def _check(holds: bool, problem: Problem, promise: str) -> None:
    if not holds:
        raise InvalidProblem(f"problem {problem.name!r}: {promise}", problem=problem.name)


def _checked_data(problem: Problem) -> Any:
    with user_code(f"problem {problem.name!r}: data()", problem=problem.name):
        data = problem.data()
    check_data(problem, data)
    return data


def _check_candidate(problem: Problem, candidate: Candidate, few: Data, data: Data) -> str:
    """Build and train a candidate; return the result as a sentence."""
    from daskevo.models import check_storable, flatten, is_fresh, rebuild, shape_only

    model, again = _built(problem, candidate), _built(problem, candidate)
    _check(model is not again, problem, "build() must return a fresh model each time")
    _check(is_fresh(model), problem, "build() must return an uncompiled, untrained model: compile() is called later")
    try:
        flat = flatten(model)
        graph = flat.graph
        # The first takes kinds of models that it has seen on trust; the second makes this very one again.
        check_storable(flat)
        rebuild(graph)
    except (CannotFlatten, CannotRebuild) as error:
        raise InvalidProblem(
            f"problem {problem.name!r}: what build() returned can't be stored: {error.message}", problem=problem.name
        ) from error
    # A trainer builds the candidate again, and its ancestor was chosen for the graph of the first build.
    _check(graph.ids == flatten(again).graph.ids, problem, "build() must return the same architecture each time")
    # As a search builds its candidates before it asks for an ancestor.
    with shape_only():
        shaped = _built(problem, candidate)
    _check(graph.ids == flatten(shaped).graph.ids, problem, "build() must not depend on values of weights")
    steps, metric, value = _check_training(problem, model, flat, few, data)
    size = f"{say_count(len(model.layers), 'layer')}, {model.count_params():,} parameters"
    trained = f"{say_count(steps, 'step')} trained with its first layer frozen"
    return f"{size}; built twice alike, stored and made again, {trained}; {metric} {say_quality(value)}"


def _built(problem: Problem, candidate: Candidate) -> Any:
    with user_code(f"problem {problem.name!r}: build()", problem=problem.name):
        return build_candidate(problem, candidate)


def _check_training(problem: Problem, model: Any, flat: FlatModel, few: Data, data: Data) -> tuple[int, str, float]:
    """Train a model briefly; return its steps, the objective's metric and its value."""
    from daskevo_workflows.evaluation.training import Stopwatch, lost_its_way, train

    # Like a search, freeze some layers before compile() is called.
    frozen = next((layer for layer in model.layers if layer.weights), None)
    if frozen is not None:
        frozen.trainable = False
    before = [] if frozen is None else [np.asarray(weight) for weight in frozen.weights]
    with user_code(f"problem {problem.name!r}: compile(), fit() or score()", problem=problem.name):
        metrics, steps = train(problem, model, few, Stopwatch(), epochs=1, refuse_vain=True)
    why = lost_its_way(metrics)
    _check(not why, problem, f"{why} (after {steps} steps)")
    _check(model.compiled, problem, "compile() must compile the model that it is given")
    _check(steps > 0, problem, "fit() must train with the callbacks that it is given, for one step at least")
    if frozen is not None and frozen.trainable is False:
        same = all(np.array_equal(old, np.asarray(new)) for old, new in zip(before, frozen.weights, strict=True))
        _check(same, problem, "a frozen layer must not change in training")
    _check(frozen is None or not frozen.trainable, problem, "compile() and fit() must leave frozen layers frozen")
    _check_put(problem, flat, metrics)
    _check_outputs(problem, model, flat, few)
    metric, quality = _checked_quality(problem, metrics, lambda: problem.score(model, data))
    return steps, metric, quality


def _check_put(problem: Problem, flat: FlatModel, metrics: dict[str, Any]) -> None:
    """Check that a search could store a trained model and its metrics."""
    from daskevo.models import check_finite, read_tensors
    from daskevo.repository.attachments import plain_metrics
    from daskevo_workflows.evaluation.training import finite

    try:
        check_finite(flat.graph, dict(enumerate(read_tensors(flat))))
        with user_code("reading them", passing=(DaskevoError,)):
            plain_metrics(finite(metrics))
    except InvalidInput as error:
        raise InvalidProblem(
            f"problem {problem.name!r}: what compile(), fit() and score() left, weights and metrics, can't be stored: "
            f"{error.message}",
            problem=problem.name,
        ) from error


def _check_outputs(problem: Problem, model: Any, flat: FlatModel, few: Data) -> None:
    """Check that a trained model, rebuilt from its stored weights, gives the same predictions."""
    import keras

    from daskevo.models import read_tensors, rebuild_flat

    if not is_usual(few.validation):
        return  # only the problem's own score() knows how to predict that
    with user_code(f"problem {problem.name!r}: predicting", problem=problem.name):
        again = rebuild_flat(flat.graph, tensors=dict(enumerate(read_tensors(flat)))).model
        x = few.validation[0]
        # The model itself twice: whether predictions are random at all is seen by that.
        found = [one.predict(x, verbose=0, batch_size=problem.batch_size) for one in (model, again, model)]
    mine, rebuilt, twice = (keras.tree.flatten(outputs) for outputs in found)
    if not _alike(mine, twice):
        return  # predictions are random: those of one model differ too
    _check(
        _alike(mine, rebuilt),
        problem,
        "a model rebuilt from its architecture and weights must predict what it did: some layer keeps state that is "
        "neither, so what a search stores would be another model. Keep it in weights (self.add_weight)",
    )


def _alike(mine: list[Any], theirs: list[Any]) -> bool:
    return all(
        np.allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-3, atol=1e-4, equal_nan=True)
        for one, other in zip(mine, theirs, strict=True)
    )


def _checked_quality(problem: Problem, metrics: dict[str, Any], score_all: Callable[[], Any]) -> tuple[str, float]:
    """Return the objective's metric and its value.

    On a few samples it may not be finite, for example an AUC if all are of one class; then it is computed on all.
    """
    objective = Objective.parse(problem.objective)
    names = sorted(map(str, metrics))
    _check(objective.metric in metrics, problem, f"score() must return {objective.metric!r}; there are {names}")
    value = metrics[objective.metric]
    _check(
        isinstance(value, (int, float, np.number)) and not isinstance(value, bool),
        problem,
        f"the metric {objective.metric!r} must be a number, not {shown(value)}",
    )
    quality = objective.quality(metrics)
    if quality is None:
        with user_code(f"problem {problem.name!r}: score()", problem=problem.name):
            quality = objective.quality({**metrics, **score_all()})
    if quality is None:
        raise InvalidProblem(
            f"problem {problem.name!r}: the metric {objective.metric!r} must be finite, not {shown(value)}",
            problem=problem.name,
        )
    return objective.metric, quality
