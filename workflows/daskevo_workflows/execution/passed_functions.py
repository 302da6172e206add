"""Identity of objects passed to a search from Python that affect training: callbacks, and a freezing function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any

from daskevo.code_identity import made_of
from daskevo.types import JSON
from daskevo_workflows.problems.content import PYTHON, SHOWN_PARTS

Callbacks = Sequence[Any] | Callable[[], Sequence[Any]]


def passed_identity(callbacks: Callbacks, freeze: Any = None, *, is_versioned: bool = False) -> dict[str, JSON]:
    """Return the identity of passed objects, for a run's record.

    Parameters
    ----------
    callbacks, freeze:
        As `daskevo_workflows.nas.search` takes them.
    is_versioned:
        Whether the problem states a version; then objects that can't be inspected don't matter.

    Returns
    -------
    dict
        ``callbacks``: their classes, or the function that makes them. If there is code also ``digest`` and ``parts``,
        valid for the versions of Python and Keras in ``compiled``, and ``unknown``: parts that can't be inspected.
    """
    several = [callbacks] if callable(callbacks) else list(callbacks)
    found: dict[str, JSON] = {"callbacks": [name_of(one) for one in several]}
    parts = {"callbacks": callbacks if callable(callbacks) else several} if several else {}
    if callable(freeze):
        parts["freeze"] = freeze
    if not parts:
        return found
    made = made_of(*parts.values(), names=parts)
    found |= {
        "digest": made.digest,
        "parts": dict(islice(made.parts.items(), SHOWN_PARTS)),
        # Keras objects have different attributes in different versions.
        "compiled": f"Python {PYTHON}, Keras {version('keras')}",
    }
    return found | ({"unknown": list(made.unknown)} if made.unknown and not is_versioned else {})


def name_of(one: Any) -> str:
    """Return the name of a function or of an object's class (not its repr, which contains an address)."""
    return str(getattr(one, "__qualname__", type(one).__qualname__))
