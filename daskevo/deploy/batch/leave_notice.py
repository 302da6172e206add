"""Workers announce an orderly exit first, so that searches don't take it for a crash caused by their evaluations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

NOTICE_S = 1.5
"""How long before they leave: searches look at their trainers once a second."""


async def let_go(scheduler: Any, addresses: Sequence[str], timeout_s: float) -> None:
    """Have workers leave in order: nothing new is given to them, then they close.

    Parameters
    ----------
    scheduler:
        An rpc of the Dask scheduler.
    addresses:
        Of the workers.

    Raises
    ------
    OSError, TimeoutError
        If the scheduler doesn't do it in time.
    """
    async with asyncio.timeout(timeout_s):
        await announce(scheduler, addresses)
        await scheduler.retire_workers(workers=list(addresses), close_workers=True, remove=True)


async def announce(scheduler: Any, addresses: Sequence[str]) -> None:
    """Have workers be known as leaving for a moment."""
    # With neither flag workers only get the status `closing_gracefully`, which searches can see, and no new tasks.
    await scheduler.retire_workers(workers=list(addresses), close_workers=False, remove=False)
    await asyncio.sleep(NOTICE_S)
