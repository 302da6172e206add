"""Check that a search, study or refinement is not started in an asynchronous client's event loop."""

from __future__ import annotations

from typing import Any

from daskevo.errors import InvalidInput


def check_can_lead(client: Any, what: str) -> None:
    """Check that blocking calls of a client are allowed here.

    Parameters
    ----------
    what:
        The function that was called, for the message.

    Raises
    ------
    InvalidInput
        In the event loop of an asynchronous client, which would be blocked until the end.
    """
    if client.asynchronous:
        raise InvalidInput(
            f"{what} waits until all is over, and was called in the event loop of an asynchronous Dask client, which "
            f"would stand still meanwhile: call it in a thread, `await asyncio.to_thread({what}, ...)`, or open the "
            "repository with a client that isn't asynchronous"
        )
