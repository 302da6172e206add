"""Fields of a request that a way of running can't honour: refused in one sentence, never dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.search import BEST_MATCH, Request, Strategy, View, model_id

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


def check_numbers(strategy: Strategy, view: View, requests: Sequence[Request]) -> None:
    """Check that requests are numbered and named as the view says: reports are matched to them by these.

    Raises
    ------
    InvalidInput
    """
    for number, request in enumerate(requests, start=view.next_number):
        name = model_id(view.prefix, number)
        if (request.number, request.model_id) != (number, name):
            raise InvalidInput(
                f"strategy {strategy.name!r} numbers a request {request.number!r:.40} and calls its model "
                f"{request.model_id!r:.80}, where {number} and {name!r} come next: make requests with "
                "view.request(offset, candidate)"
            )
