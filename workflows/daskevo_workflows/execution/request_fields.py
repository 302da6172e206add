"""Fields of a request that a way of running can't honour: refused in one sentence, never dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.search import BEST_MATCH, Request, Strategy

NOTHING: tuple[Any, ...] = (None, 0, {}, BEST_MATCH)
"""What these fields are in a request that doesn't ask for anything by them."""


def refuse_fields(strategy: Strategy, request: Request, reasons: Mapping[str, str]) -> None:
    """Refuse a request that asks for something by one of some fields.

    Parameters
    ----------
    reasons:
        By field: why it can't be honoured, and what to do. ``None`` and ``"best match"`` name no ancestor.

    Raises
    ------
    InvalidInput
        For the first such field.
    """
    for name, why in reasons.items():
        if (value := getattr(request, name)) not in NOTHING:
            raise InvalidInput(
                f"strategy {strategy.name!r} sets {name}={value!r:.80} in request {request.number}: {why}"
            )
