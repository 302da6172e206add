"""What a problem is: a model space, how to build and train a candidate, the data, and what counts as better.

A problem of one's own is one Python file with these parts at its top level (or an object named `problem` that has
them)::

    from daskevo.space import Choice, Space

    name = "moons"
    objective = "max val_accuracy"
    epochs, batch_size = 5, 32

    def space():
        return Space(name, (Choice("units", (8, 16, 32)), Choice("activation", ("relu", "tanh"))))

    def build(choices):                       # one option per choice, by name; returns an uncompiled keras.Model
        ...

    def data():                               # called once per process
        return Data(train=(x, y), validation=(x_val, y_val))

    def compile(model): ...
    def score(model, data): return {"val_accuracy": ...}

``daskevo nas moons.py`` runs it. Two parts may be there or not::

    def callbacks(): ...                      # Keras callbacks, fresh for each evaluation
    def fit(model, x, y, **options):          # instead of daskevo_workflows.fitting.fast_fit
        return model.fit(x, y, **options)

Without a `fit` of the problem's own, models are fitted by :func:`daskevo_workflows.fitting.fast_fit`: Keras' `fit`,
whose first step comes sooner. `options` are epochs, batch_size, callbacks and verbose; `fit` returns a Keras History.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from daskevo.errors import InvalidInput, InvalidProblem
from daskevo.space import Space
from daskevo.types import Objective


@dataclass(frozen=True)
class Data:
    """Arrays to train with and to score with.

    Parameters
    ----------
    train, validation:
        ``(x, y)``; x is an array, or a list of arrays for several inputs, with samples along the first axis.
    """

    train: tuple[Any, Any]
    validation: tuple[Any, Any]


@runtime_checkable
class Problem(Protocol):
    """The parts of a problem. Everything runs in trainers; `space` and `build` in the controlling process, too."""

    name: str
    """1 to 100 letters, digits, ``.``, ``_`` or ``-``."""
    objective: str
    """``max METRIC`` or ``min METRIC``, a metric that `score` returns."""
    epochs: int
    """Epochs of one evaluation."""
    batch_size: int
    """Samples per training step."""

    def space(self) -> Space:
        """Return the model space; the same one at each call."""

    def build(self, choices: Mapping[str, Any]) -> Any:
        """Return a fresh, uncompiled keras.Model for one option per choice. Must not look at the data."""

    def data(self) -> Data:
        """Return the data. Called once per process; what takes long belongs on disk (see `cache.py`)."""

    def compile(self, model: Any) -> None:
        """Compile the model. Called after layers have been frozen."""

    def score(self, model: Any, data: Data) -> Mapping[str, float]:
        """Return metrics of the trained model, the objective's among them. No metric is ever negated."""


METHODS: Mapping[str, int] = {"space": 0, "build": 1, "data": 0, "compile": 1, "score": 2}
"""Method -> arguments it takes. Two more are optional, see above: `callbacks` and `fit`."""


def check_parts(problem: object, where: str) -> Problem:
    """Return `problem` if it has all parts.

    Parameters
    ----------
    where:
        Where it comes from, for the message.

    Raises
    ------
    InvalidProblem
        Naming every part that is missing or wrong.
    """
    faults: list[str] = []
    if not isinstance(getattr(problem, "name", None), str):
        faults.append("name (a text)")
    try:
        Objective.parse(getattr(problem, "objective", None))  # type: ignore[arg-type]
    except InvalidInput:
        faults.append("objective ('max METRIC' or 'min METRIC')")
    for part in ("epochs", "batch_size"):
        value = getattr(problem, part, None)
        if type(value) is not int or value < 1:
            faults.append(f"{part} (a whole number from 1)")
    for part, arguments in METHODS.items():
        method = getattr(problem, part, None)
        if not callable(method):
            faults.append(f"{part}() (a function)")
        elif not _takes(method, arguments):
            faults.append(f"{part}() taking {arguments} argument{'s' * (arguments != 1)}")
    fit = getattr(problem, "fit", None)
    if fit is not None and not (callable(fit) and _takes(fit, 3, "epochs", "batch_size", "callbacks", "verbose")):
        faults.append("fit() taking a model, x, y and options (leave it out for the usual one)")
    if faults:
        raise InvalidProblem(
            f"{where} is no problem; missing or wrong: {'; '.join(faults)}. See daskevo_workflows.problems.protocol "
            "for what a problem needs",
            parts=faults,
        )
    space = problem.space()  # type: ignore[attr-defined]
    if not isinstance(space, Space):
        raise InvalidProblem(f"space() of {where} returned {type(space).__name__}, not a daskevo.space.Space")
    return problem  # type: ignore[return-value]


def _takes(method: Any, arguments: int, *options: str) -> bool:
    try:
        inspect.signature(method).bind(*[None] * arguments, **dict.fromkeys(options))
    except TypeError:
        return False
    except ValueError:  # no signature to be had: a builtin
        return True
    return True


def optional_callbacks(problem: Problem) -> Sequence[Any]:
    """Return the problem's own Keras callbacks, fresh; none if it has no such part."""
    make = getattr(problem, "callbacks", None)
    return list(make()) if callable(make) else []
