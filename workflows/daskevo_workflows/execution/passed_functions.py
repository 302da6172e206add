"""What a search gets from Python besides its problem and shapes training: callbacks, and a function that freezes."""

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
    """Return what tells what was passed from anything else, as a run's record keeps it.

    Parameters
    ----------
    callbacks, freeze:
        As `daskevo_workflows.nas.search` takes them.
    is_versioned:
        Whether the problem states a version, which says more than what can't be looked into.

    Returns
    -------
    dict
        ``callbacks``: their classes, or the function that makes them. If there is code: ``digest`` and ``parts``, of
        the versions ``compiled`` of Python and Keras only, and ``unknown``.
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
        # Objects of Keras hold other attributes in other versions.
        "compiled": f"Python {PYTHON}, Keras {version('keras')}",
    }
    return found | ({"unknown": list(made.unknown)} if made.unknown and not is_versioned else {})


def name_of(one: Any) -> str:
    """Return what a function is called, or the class of an object: no address is in it."""
    return str(getattr(one, "__qualname__", type(one).__qualname__))
