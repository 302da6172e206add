"""What a problem is: a model space, how to build and train a candidate, the data, and what counts as better.

Your own problem is one Python file with these parts at its top level (or in an object named `problem`)::

    from daskevo.space import Choice, Space

    name = "moons"
    objective = "max val_accuracy"
    epochs, batch_size = 5, 32

    def space():
        return Space(name, (Choice("units", (8, 16, 32)), Choice("activation", ("relu", "tanh"))))

    def build(choices):                       # one option per choice, by name; returns an uncompiled keras.Model
        ...

    def data():                               # called once per run in each process
        return Data(train=(x, y), validation=(x_val, y_val))

    def compile(model): ...
    def score(model, data): return {"val_accuracy": ...}

``daskevo nas moons.py`` runs it. Without a `space`, `build` asks for each choice where it needs it, and choices may
depend on others (see :class:`daskevo.space.Builder`)::

    def build(choose):
        x = inputs = keras.Input((2,))
        for number in range(choose("layers", (1, 2, 3))):
            x = keras.layers.Dense(choose(f"units {number}", (8, 16, 32)), "relu")(x)
        return keras.Model(inputs, keras.layers.Dense(2, "softmax")(x))

Three more parts are optional::

    def callbacks(): ...                      # Keras callbacks, fresh for each evaluation
    def fit(model, x, y, **options):          # instead of daskevo_workflows.fitting.fast_fit
        return model.fit(x, y, **options)
    validate = True                           # each epoch ends with val_ metrics

Without its own `fit`, models are trained by :func:`daskevo_workflows.fitting.fast_fit`: like Keras' `fit`, but its
first step starts sooner. `options` are epochs, batch_size, callbacks and verbose; `fit` returns a Keras History. If a
callback monitors a metric of validation data, such as ``val_loss``, or the problem sets ``validate = True``, they
include validation_data; the problem's own `fit` gets them if it has that parameter, or if the problem sets `validate`.

In a study of hyper-parameters over time (:mod:`daskevo.tuning`) models are trained in stages, without `fit`. There
`build` gets the constants of the configuration as choices (no `space` is needed), `compile` may take the
hyper-parameters, and each sequence is applied according to its name: ``learning_rate``, ``momentum``,
``weight_decay`` and the like to the optimizer, ``batch_size`` to the batches, all else to an optional `batch`::

    def compile(model, hyperparameters):      # constants, and the sequences' values at step 0
        model.compile(keras.optimizers.SGD(hyperparameters["learning_rate"]), "mse")
    def batch(x, y, values, generator):       # one batch as arrays; values by name; numpy generator of this step
        return augmented(x, values["augmentation"], generator), y

All state that training changes must be in the model, its optimizer, or in callbacks that declare it; see
:mod:`daskevo_workflows.stage_training`, whose ``check_exact(problem, ...)`` checks this. A problem without Keras has a
``training_loop(constants, data, seed)`` in place of build, compile, score and batch_size.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from daskevo.errors import DaskevoError, InvalidInput, InvalidProblem
from daskevo.space import ModelSpace, Space
from daskevo.types import Objective
from daskevo_workflows.evaluation.failures import user_code

if TYPE_CHECKING:
    import keras


@dataclass(frozen=True)
class Data:
    """The data to train and score with.

    Parameters
    ----------
    train, validation:
        ``(x, y)`` or ``(x, y, sample_weight)``; each an array, or a list, tuple or dict of arrays for several inputs or
        outputs, with samples along the first axis; sparse matrices of scipy, too. Or ``(dataset, None)``, with a
        keras.utils.PyDataset or a finite tf.data.Dataset. A problem with its own `fit` may use any other objects.
    """

    train: tuple[Any, ...]
    validation: tuple[Any, ...]


@runtime_checkable
class Problem(Protocol):
    """The parts that every problem has. All run in trainers; `space` and `build` also in the controlling process."""

    name: str
    """1 to 100 letters, digits, ``.``, ``_`` or ``-``."""
    objective: str
    """``max METRIC`` or ``min METRIC``, a metric that `score` returns."""
    epochs: int
    """Epochs of one evaluation."""
    batch_size: int
    """Samples per training step."""

    def build(self, choices: Any) -> keras.Model:
        """Return a fresh, uncompiled keras.Model. It must not depend on the data.

        `choices` has one option per choice of the `space`, by name; without a `space` it is the function
        ``choose(name, options)``. A problem whose `space` makes models itself needs no `build`.
        """

    def data(self) -> Data:
        """Return the data. Called once per run in each process; cache slow preparations on disk (see `cache.py`)."""

    def compile(self, model: Any) -> None:
        """Compile the model. Called after layers have been frozen."""

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        """Return metrics of the trained model, including the objective's. Metrics are never negated."""


METHODS: Mapping[str, int] = {"build": 1, "data": 0, "compile": 1, "score": 2}
"""Required method -> number of its arguments. Optional methods, see above: `space`, `callbacks` and `fit`."""


def _space(problem: Any, where: str) -> Any:
    with user_code(f"{where} is no problem yet: space()", passing=(DaskevoError,)):
        return problem.space() if hasattr(problem, "space") else None


def check_parts(problem: object, where: str) -> Problem:
    """Return `problem` if it has all parts.

    Parameters
    ----------
    where:
        Origin of the problem, for the message.

    Raises
    ------
    InvalidProblem
        The message names every part that is missing or wrong.
    """
    # All faults are collected: whoever writes a first problem mends them at once.
    faults: list[str] = []
    if not isinstance(getattr(problem, "name", None), str):
        faults.append("name (a text)")
    try:
        Objective.parse(getattr(problem, "objective", None))  # type: ignore[arg-type]
    except InvalidInput:
        faults.append("objective ('max METRIC' or 'min METRIC')")
    for part in ("epochs",) if callable(getattr(problem, "training_loop", None)) else ("epochs", "batch_size"):
        value = getattr(problem, part, None)
        # The exact type: True would pass for 1.
        if type(value) is not int or value < 1:
            faults.append(f"{part} (a whole number from 1)")
    validate = getattr(problem, "validate", False)
    if not (isinstance(validate, bool) or callable(validate)):  # a function of that name is unrelated
        faults.append("validate (True or False)")
    space = _space(problem, where)
    # With a training loop there is no Keras; with hyper-parameters it is for a study, where choices are constants.
    has_loop = callable(getattr(problem, "training_loop", None))
    is_tuned = takes_hyperparameters(problem)
    for part, arguments in METHODS.items():
        if has_loop and part != "data":
            continue
        if part == "build" and not isinstance(space, Space | None):
            continue  # the space makes models itself
        method = getattr(problem, part, None)
        if not callable(method):
            faults.append(f"{part}() (a function)")
        elif not _takes(method, arguments) and not (part == "compile" and is_tuned):
            faults.append(f"{part}() taking {arguments} argument{'s' * (arguments != 1)}")
        elif part == "build" and space is None and not is_tuned and "choices" in inspect.signature(method).parameters:
            # Only the parameter's name tells that it was written for a dict of choices.
            faults.append("space() (a function; or let build() take `choose`, and call it)")
    fit = getattr(problem, "fit", None)
    if fit is not None and not (callable(fit) and _takes(fit, 3, "epochs", "batch_size", "callbacks", "verbose")):
        faults.append("fit() taking a model, x, y and options (leave it out for the usual one)")
    if faults:
        raise InvalidProblem(
            f"{where} is no problem; missing or wrong: {'; '.join(faults)}. See daskevo_workflows.problems.protocol "
            "for what a problem needs",
            parts=faults,
        )
    if not isinstance(space, ModelSpace | None) or (space is None and hasattr(problem, "space")):
        raise InvalidProblem(f"space() of {where} returned {type(space).__name__}, not a daskevo.space.Space")
    return problem  # type: ignore[return-value]


def takes_hyperparameters(problem: object) -> bool:
    """Tell whether a problem's `compile` takes hyper-parameters besides the model."""
    method = getattr(problem, "compile", None)
    return callable(method) and _takes(method, 2)


def compile_model(problem: Problem, model: Any, hyperparameters: Mapping[str, Any] | None = None) -> None:
    """Call a problem's `compile`, with hyper-parameters if it takes them.

    Raises
    ------
    InvalidProblem
        If it needs hyper-parameters and there are none.
    """
    if hyperparameters is not None and takes_hyperparameters(problem):
        problem.compile(model, hyperparameters)  # type: ignore[call-arg]
    elif hyperparameters is None and not _takes(problem.compile, 1):
        raise InvalidProblem(
            f"compile() of problem {problem.name!r} needs hyper-parameters, which a study has (daskevo tune) and a "
            "search of architectures hasn't: give the second argument a default"
        )
    else:
        problem.compile(model)


def _takes(method: Any, arguments: int, *options: str) -> bool:
    try:
        inspect.signature(method).bind(*[None] * arguments, **dict.fromkeys(options))
    except TypeError:
        return False
    except ValueError:  # no signature to be had: a builtin
        return True
    return True


def optional_callbacks(problem: Problem) -> Sequence[Any]:
    """Return fresh Keras callbacks of the problem; none if it does not define any."""
    make = getattr(problem, "callbacks", None)
    return list(make()) if callable(make) else []
