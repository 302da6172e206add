"""Layers that change their weights whenever they are called in training, whether they are trainable or not.

``trainable = False`` stops gradients, and BatchNormalization; it doesn't stop a ``call`` that assigns.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

import keras

from daskevo.models.flat import weights_of
from daskevo.models.keras_private import with_sublayers

_ASSIGNING = frozenset({"assign", "assign_add", "assign_sub"})


def moves(layer: Any) -> bool:
    """Whether something in a layer goes on changing after ``trainable = False``.

    Of Keras' own layers these are SpectralNormalization and recurrent ones that keep their state. One of another class
    is taken for such a layer if what its ``call`` calls of it assigns, and doesn't ask for ``trainable``.
    """
    return any(_moves(part) for part in with_sublayers(layer))


def _moves(part: Any) -> bool:
    if isinstance(part, keras.layers.SpectralNormalization):
        return True
    if isinstance(part, keras.layers.RNN) and part.stateful:
        return True
    return bool(weights_of(part)) and _assigns(type(part))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=256)
def _assigns(kind: type) -> bool:
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] not in ("keras", "builtins")]
    own = {name for base in bases for name in vars(base)}
    waiting, met = ["call"], {"call"}
    while waiting:
        method = waiting.pop()
        for base in bases:
            names = {name for code in _codes(vars(base).get(method)) for name in code.co_names}
            if "trainable" in names:
                break  # it decides, also for what it overrides
            if names & _ASSIGNING:
                return True
            waiting += (names & own) - met
            met |= names
            if method in vars(base) and method not in names:
                break  # what it overrides isn't called
    return False


def _codes(value: Any) -> Iterator[types.CodeType]:
    """Yield the code of a method, and of the functions inside it."""
    function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
    waiting = [function.__code__] if isinstance(function, types.FunctionType) else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
