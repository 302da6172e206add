"""The training mode of a call, ``layer(x, training=True)``: where it decides what is computed, and where it doesn't.

What a call was given holds while its model is called without a mode; ``fit`` and ``predict`` pass theirs to every layer
instead. Keras records the default of a layer's signature too, as if it had been given.
"""

from __future__ import annotations

import inspect
from typing import Any

import keras

from daskevo.models.custom_code import is_keras_own
from daskevo.models.keras_private import with_sublayers


def is_moot(operation: Any, mode: Any) -> bool:
    """Whether a call computes exactly the same if the mode that it was given is left out."""
    kind = type(operation)
    if _takes_mode(kind):
        return mode is _default(kind)
    # Keras passes it on to the layers inside.
    return mode is None or (is_keras_own(kind) and len(with_sublayers(operation)) == 1)


def is_inference(operation: Any, mode: Any) -> bool:
    """Whether inference is what layers of Keras are told, which are in that mode anyway.

    To them None and False are the same. To a user's layer they needn't be, nor to the function of a Lambda.
    """
    return (mode is None or mode is False) and all(_infers(type(layer)) for layer in with_sublayers(operation))


def counts(kind: type | None, mode: Any) -> bool:
    """Whether a mode counts that stands in the configuration of a functional model, which a wrapper holds.

    Parameters
    ----------
    kind:
        The class of the layer that is called; None if it isn't known.
    mode:
        As it stands there.
    """
    # Of an unknown class, True may change what it does; None and False are what it is called with anyway.
    if kind is None:
        return bool(mode)
    return mode is not _default(kind) and not (_infers(kind) and not mode)


def _infers(kind: type) -> bool:
    return is_keras_own(kind) and not issubclass(kind, keras.layers.Lambda) and not _default(kind)


def _takes_mode(kind: type) -> bool:
    return _parameter(kind) is not None


def _default(kind: type) -> Any:
    parameter = _parameter(kind)
    return None if parameter is None else parameter.default


def _parameter(kind: type) -> inspect.Parameter | None:
    return inspect.signature(kind.call).parameters.get("training")  # type: ignore[attr-defined]
