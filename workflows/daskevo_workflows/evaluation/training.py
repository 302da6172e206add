"""Train one model of a problem: compile, fit and score, with timings, a last step, and cancellation."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo_workflows.execution.passed_functions import Callbacks
from daskevo_workflows.fitting import fast_fit, validation_options, watched_in_vain
from daskevo_workflows.fitting.validation import PREFIX
from daskevo_workflows.problems.data_parts import is_dataset, samples
from daskevo_workflows.problems.protocol import Problem, compile_model, optional_callbacks

logger = logging.getLogger(__name__)


class Stopped(Exception):
    """Training was cancelled; it ended after the current batch."""


class Stopwatch:
    """Adds up seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent in this block to a phase, also if it raises."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - begun)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def train(
    problem: Problem,
    model: Any,
    data: Any,
    stopwatch: Stopwatch,
    *,
    epochs: int | None = None,
    batch_size: int | None = None,
    until_step: int | None = None,
    callbacks: Callbacks = (),
    cancelled: Callable[[], bool] = lambda: False,
    refuse_vain: bool = False,
) -> tuple[dict[str, Any], int]:
    """Compile, fit and score.

    Parameters
    ----------
    stopwatch:
        Gets the phases compile, first_step, training and scoring. The first step includes tracing the graph.
    epochs, batch_size:
        Instead of the problem's.
    until_step:
        Train up to this optimizer step, for as many epochs as that takes.
    callbacks:
        Keras callbacks besides the problem's own: a list (copied), or a function that makes one.
    cancelled:
        Called after each batch; True ends the training.
    refuse_vain:
        Raise for callbacks that monitor a metric which training does not produce, instead of logging a warning.

    Returns
    -------
    metrics, steps
        Metrics of the last epoch and of the problem's `score`; number of optimizer steps.

    Raises
    ------
    Stopped
        If `cancelled` returned True.
    InvalidProblem
        If `score` returned no metrics; with `refuse_vain` also if a callback monitors a metric that never comes.
    """
    with stopwatch.phase("compile"):
        _compile(problem, model)
    fit = getattr(problem, "fit", None) or fast_fit
    batch_size = batch_size or problem.batch_size
    clock = _clock(until_step, cancelled)
    watching = [*optional_callbacks(problem), *fresh(callbacks)]
    begun = time.perf_counter()
    try:
        history = fit(
            model,
            *data.train[:2],
            epochs=_epochs(epochs or problem.epochs, until_step, data, batch_size),
            batch_size=batch_size,
            callbacks=[*watching, clock],
            verbose=0,
            **validation_options(problem, watching, data),
            **_options_of(data.train, is_ours=fit is fast_fit),
        )
    finally:
        # Also when training fails: the report of a failure says where the time went.
        total = time.perf_counter() - begun
        first = total if clock.first is None else clock.first - begun
        stopwatch.add("first_step", first)
        stopwatch.add("training", total - first)
    _see_watched(problem, watching, history.history, refuse_vain)
    metrics: dict[str, Any] = {name: values[-1] for name, values in history.history.items() if values}
    with stopwatch.phase("scoring"):
        scored = problem.score(model, data)
    if not isinstance(scored, Mapping):
        raise InvalidProblem(
            f"score() of problem {problem.name!r} returned {type(scored).__name__}, not metrics by name: return a dict "
            "such as {'val_accuracy': 0.9}"
        )
    metrics.update(scored)
    return metrics, clock.steps


def _options_of(part: Sequence[Any], *, is_ours: bool) -> dict[str, Any]:
    """Return what `fit` must be told about the data besides x and y."""
    options: dict[str, Any] = {}
    if len(part) > 2 and part[2] is not None:
        options["sample_weight"] = part[2]
    if is_ours and is_dataset(part[0]) and hasattr(part[0], "cardinality"):
        options["shuffle"] = False  # a tf.data.Dataset can't be, and Keras says so each time
    return options


def _compile(problem: Problem, model: Any) -> None:
    """Compile; unnamed metrics get the same names each time, also if a model is trained in two parts."""
    from daskevo.models.keras_private import names_given_back

    with names_given_back():
        compile_model(problem, model)


def _see_watched(problem: Problem, watching: Sequence[Any], names: Mapping[str, Any], refuse: bool) -> None:
    for callback, name in watched_in_vain(watching, names):
        words = (
            f"the callback {callback} of problem {problem.name!r} watches {name!r}, and training gave "
            f"{', '.join(names) or 'nothing'}: it will never act"
        )
        if name.startswith(PREFIX) and not any(each.startswith(PREFIX) for each in names):
            words += ". A fit() of one's own gets validation data where it names a parameter validation_data"
        if refuse:
            raise InvalidProblem(f"{words}: watch one of those", problem=problem.name, callback=callback, watched=name)
        logger.warning("%s", words)


def check_training(settings: Mapping[str, Any]) -> None:
    """Check the training settings of a request.

    Raises
    ------
    InvalidInput
    """
    for name, value in settings.items():
        if name not in ("epochs", "batch_size") or type(value) is not int or value < 1:
            raise InvalidInput(
                f"a request's training can't be set by {name!r:.40} = {value!r:.40}: there are epochs and batch_size, "
                "whole numbers from 1"
            )


def fresh(callbacks: Callbacks) -> list[Any]:
    """Return the user's callbacks for one evaluation: never objects that another evaluation has used."""
    # Callbacks keep the model that they watched, and what they have counted.
    return list(callbacks()) if callable(callbacks) else copy.deepcopy(list(callbacks))


def lost_its_way(metrics: Mapping[str, Any]) -> str:
    """Return a sentence if training ended with a NaN loss, so that the weights are NaN too; otherwise empty.

    The score may still be finite: the argmax of NaN predictions is always the same class.
    Examples
    --------
    >>> lost_its_way({"loss": 0.3}), lost_its_way({"accuracy": 0.3}), lost_its_way({"loss": float("nan")})[:39]
    ('', '', 'the loss is nan at the end of training:')
    """
    try:
        lost = math.isnan(float(metrics.get("loss", 0.0)))
    except (TypeError, ValueError, OverflowError):
        return ""
    return (
        "the loss is nan at the end of training: gaps (nan) in what data() returns, or a learning rate that is too high"
        if lost
        else ""
    )


def finite(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the metrics as JSON numbers; values that are not finite become None."""
    return {name: number if math.isfinite(number) else None for name, number in numbers(metrics).items()}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are numbers, as such; what else there is, arrays and texts, is left out."""
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if getattr(value, "ndim", 0):
            continue  # an array, if of one value: which it is of is not said
        try:
            found[str(name)] = float(value)
        except OverflowError:  # an integer beyond 10**308
            found[str(name)] = math.inf
        except (TypeError, ValueError):
            continue
    return found


def _epochs(epochs: int, until_step: int | None, data: Any, batch_size: int) -> int:
    """Return the number of epochs: as given, or as many as `until_step` reaches into."""
    if until_step is None:
        return epochs
    count = samples(data.train)
    # A dataset of unknown length has at least one step per epoch, and training ends at the step anyway.
    return until_step if count is None else math.ceil(until_step / math.ceil(count / batch_size))


def _clock(until_step: int | None, cancelled: Callable[[], bool]) -> Any:
    """Return the callback that notes when the first batch ended, counts steps and ends training."""
    import keras

    class StepTimes(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first: float | None = None
            self.steps = 0

        # Validation at an epoch's end may take longer than the epoch.
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            if cancelled():
                raise Stopped("training was cancelled")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps += 1
            if self.first is None:
                self.first = time.perf_counter()
            if self.steps == until_step:
                self.model.stop_training = True
            if cancelled():
                raise Stopped("training was cancelled")

    return StepTimes()
