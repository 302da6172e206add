"""What a run function gave, as DeepHyper takes it: numbers, or a failure that says why, as a text ``F_...``."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

MAX_MESSAGE = 500
"""Characters of an error that are kept in a job's metadata."""


def failure(reason: str, message: str = "") -> dict[str, Any]:
    """Return DeepHyper's failed outcome: the objective ``F_REASON``, and what was said in the metadata ``error``."""
    return {"objective": f"F_{reason}", "metadata": {"error": message[:MAX_MESSAGE]} if message else {}}


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return the failed outcome of a run function that raised."""
    try:
        words = str(error)
    except Exception as other:  # noqa: BLE001 - user code's __str__ may raise anything, and the search goes on
        words = f"(its message can't be had: {type(other).__name__})"
    return failure(type(error).__name__, words)


def checked(output: Any) -> object:
    """Return a run function's output if a search of DeepHyper's can take it, else a failed outcome.

    An objective is a finite number, several in a tuple or list, or a text that begins with F; alone, or in a dict with
    ``metadata``. Anything else would end the whole search, or be taken for the best.

    Examples
    --------
    >>> checked({"objective": 0.5, "metadata": {"epochs": 3}})
    {'objective': 0.5, 'metadata': {'epochs': 3}}
    >>> checked(float("nan"))
    {'objective': 'F_not_finite', 'metadata': {'error': 'the objective is nan'}}
    """
    found, metadata = output, {}
    if isinstance(output, dict):
        given = output.get("metadata", {})
        metadata = {str(key): value for key, value in given.items()} if isinstance(given, Mapping) else {}
        found = output.get("output", output.get("objective"))
    objective = _objective(found)
    if isinstance(objective, dict):
        return {"objective": objective["objective"], "metadata": {**metadata, **objective["metadata"]}}
    return {"objective": objective, "metadata": metadata}


def _objective(found: Any) -> Any:
    if isinstance(found, str):
        return found if found.startswith("F") else f"F_{found}"
    several = isinstance(found, (tuple, list)) and len(found) > 0
    values = list(found) if several else [found]
    # bool is a number for Python, but `return accuracy > 0.9` is a mistake.
    if any(isinstance(value, bool) or not isinstance(value, numbers.Real) for value in values):
        return failure("objective", f"an objective is a number, or several in a tuple, not {_shown(found)}")
    try:
        plain = [float(value) for value in values]
    except OverflowError:
        # A Python int beyond the largest float.
        plain = [math.inf]
    if not all(map(math.isfinite, plain)):
        return failure("not_finite", f"the objective is {_shown(found)}")
    return tuple(plain) if several else plain[0]


def _shown(found: Any) -> str:
    return f"{found!r:.80}" if isinstance(found, (numbers.Number, str, tuple, list)) else type(found).__name__
