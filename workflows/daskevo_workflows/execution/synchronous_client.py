"""The client that a search, a study or a refining leads from: it must be one whose calls wait for their answer."""

from __future__ import annotations

from typing import Any

from daskevo.errors import InvalidInput


def check_can_lead(client: Any, what: str) -> None:
    """See whether a client can lead from here.

    Parameters
    ----------
    what:
        The function that is called, as its caller knows it.

    Raises
    ------
    InvalidInput
        In the event loop of an asynchronous client, which would stand still until all is over.
    """
    if client.asynchronous:
        raise InvalidInput(
            f"{what} waits until all is over, and was called in the event loop of an asynchronous Dask client, which "
            f"would stand still meanwhile: call it in a thread, `await asyncio.to_thread({what}, ...)`, or open the "
            "repository with a client that isn't asynchronous"
        )
