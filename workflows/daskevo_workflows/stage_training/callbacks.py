"""Keras callbacks in a training that may be cut after any step: which ones are allowed, and how they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from daskevo.errors import InvalidInput
from daskevo_workflows.evaluation.failures import Failed
from daskevo_workflows.fitting import wants_validation

Array = np.ndarray[Any, Any]

_STATELESS = ("TerminateOnNaN",)
_INSTEAD = {
    "BackupAndRestore": "leave it out: a study stores snapshots and goes on from them",
    "CSVLogger": "leave it out: metrics are kept with the snapshots",
    "EarlyStopping": "leave it out and stop trials by the strategy (median stopping, halving), which asks for metrics",
    "LearningRateScheduler": "make learning_rate a sequence of the configuration",
    "ModelCheckpoint": "leave it out: a study stores snapshots",
    "ReduceLROnPlateau": "make learning_rate a sequence of the configuration, or let the strategy change it",
    "SwapEMAWeights": "leave it out: where an optimizer has use_ema, its averages are used in scoring",
}


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Check that a training with these callbacks can be cut: they keep no state between steps, or offer it.

    Those of Keras that look at what was before are refused. One's own are taken if they have no attributes of their
    own, say ``stateless = True``, or have the methods by which Keras saves layers: ``save_own_variables(store)``, which
    puts arrays into a mapping, and ``load_own_variables(store)``.

    Raises
    ------
    InvalidInput
        Says what to do instead.
    """
    for callback in callbacks:
        name = type(callback).__name__
        if not isinstance(callback, keras.callbacks.Callback):
            raise InvalidInput(f"callbacks() returned {name}, which is no keras.callbacks.Callback")
        ours = [cls.__name__ for cls in type(callback).__mro__ if cls.__module__.startswith("keras.")]
        known = next((one for one in ours if one in _INSTEAD), None)
        if known is not None:
            raise InvalidInput(
                f"the callback {name} can't be used in a training that is cut into stages, because it looks at what "
                f"was before: {_INSTEAD[known]}",
                callback=name,
            )
        stateless = getattr(callback, "stateless", None) is True or name in _STATELESS
        if not stateless and not _offers_state(callback) and _own_attributes(callback):
            raise InvalidInput(
                f"the callback {name} keeps {_own_attributes(callback)}, and it isn't known whether they change in "
                "training: set stateless = True on it if they don't, else give it save_own_variables(store) and "
                "load_own_variables(store), as Keras' layers have them",
                callback=name,
            )


def _offers_state(callback: Any) -> bool:
    return all(callable(getattr(callback, name, None)) for name in ("save_own_variables", "load_own_variables"))


def _as_number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.asarray(value)


def _own_attributes(callback: Any) -> list[str]:
    return sorted(set(vars(callback)) - set(vars(keras.callbacks.Callback())))


class Callbacks:
    """Calls the callbacks of one training.

    Parameters
    ----------
    callbacks:
        Fresh ones.
    model:
        What they get to see.
    problem:
        May want validation as well.

    Attributes
    ----------
    want_validation:
        Whether the end of an epoch has to come with metrics of the validation data.
    validates:
        Whether there are such metrics at all: without callbacks, nobody reads those of an epoch.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any, problem: Any = None) -> None:
        check_callbacks(callbacks)
        self._all = list(callbacks)
        self.validates = wants_validation(problem, callbacks)
        self.want_validation = bool(callbacks) and self.validates
        self._model = model
        for callback in self._all:
            callback.set_model(model)
            # How many epochs and steps there will be isn't known: a strategy may continue any training.
            callback.set_params({"verbose": 0, "epochs": None, "steps": None})
            callback.on_train_begin()

    def __bool__(self) -> bool:
        return bool(self._all)

    def call(self, hook: str, number: int, logs: Mapping[str, Any] | None = None) -> None:
        """Call a hook, such as ``on_epoch_end``, of all.

        Raises
        ------
        Failed
            If one of them stops the training: there are no later steps.
        """
        if not self._all:
            return
        # Numbers, not tensors, as Keras' own fit() passes them; of several values each, arrays.
        given = None if logs is None else {name: _as_number(value) for name, value in logs.items()}
        for callback in self._all:
            getattr(callback, hook)(number, given)
        if self._model.stop_training:
            names = ", ".join(type(callback).__name__ for callback in self._all)
            raise Failed("error", f"a callback ended the training in {hook} of {number} ({names})")

    def save(self) -> dict[str, Array]:
        """Return what callbacks offer, by name."""
        found: dict[str, Array] = {}
        for number, callback in enumerate(self._all):
            if _offers_state(callback):
                store: dict[str, Any] = {}
                callback.save_own_variables(store)
                # A copy: the callback may go on changing its own.
                found.update({f"{number:04d}/{name}": np.array(value) for name, value in store.items()})
        return found

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Give each callback what it offered."""
        for number, callback in enumerate(self._all):
            if _offers_state(callback):
                prefix = f"{number:04d}/"
                callback.load_own_variables(
                    {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
                )
