"""Validation while a model is fitted: who wants it, and what a callback watches that never comes."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any

PREFIX = "val_"
"""With which Keras begins the names of metrics of validation data."""


def wants_validation(problem: Any, callbacks: Sequence[Any]) -> bool:
    """Tell whether each epoch has to end with metrics of the validation data: it costs the time of a scoring.

    A problem says so with ``validate = True``, a callback by what it watches.
    """
    return _says_so(problem) or any(name.startswith(PREFIX) for name in map(_watched, callbacks) if name is not None)


def validation_options(problem: Any, callbacks: Sequence[Any], data: Any) -> dict[str, Any]:
    """Return what `fit` gets for validation, if anything.

    A `fit` of the problem's own gets it where it names the parameter, or where the problem says ``validate = True``:
    others may give Keras such data themselves.
    """
    own = getattr(problem, "fit", None)
    if not wants_validation(problem, callbacks):
        return {}
    if own is not None and not _says_so(problem) and not _takes_validation(own):
        return {}
    x, *rest = data.validation
    # A dataset has all in itself, and Keras takes it alone.
    return {"validation_data": x if not rest or rest[0] is None else (x, *rest)}


def watched_in_vain(callbacks: Sequence[Any], names: Collection[str]) -> list[tuple[str, str]]:
    """Return callbacks, by class, that watch a metric which isn't among those that training gave, and its name."""
    found = [(type(callback).__name__, _watched(callback)) for callback in callbacks]
    return [(callback, name) for callback, name in found if name is not None and name not in names]


def _says_so(problem: Any) -> bool:
    return getattr(problem, "validate", False) is True  # a function of that name says nothing


def _watched(callback: Any) -> str | None:
    """Return the metric that a callback of Keras, or one like those, watches."""
    name = getattr(callback, "monitor", None)
    # A ModelCheckpoint that stores each epoch has such a name, and never looks.
    return name if isinstance(name, str) and getattr(callback, "save_best_only", True) else None


def _takes_validation(fit: Any) -> bool:
    try:
        return "validation_data" in inspect.signature(fit).parameters
    except (TypeError, ValueError):
        return False
