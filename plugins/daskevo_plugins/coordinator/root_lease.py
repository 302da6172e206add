"""Take the lease of a root for this scheduler, so that one root has one coordinator over all clusters."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Callable
from typing import Any

from daskevo.batch_formats import JOBS
from daskevo.client.lease_holders import identity_at
from daskevo.deploy.settings import RepositorySettings
from daskevo.errors import RepositoryTaken
from daskevo.store.lease import Holder, Lease, take_lease
from daskevo.store.root import Root


async def lease_root(settings: RepositorySettings, scheduler: Any, is_served: Callable[[], bool]) -> Lease:
    """Create or open a repository's root and take its lease.

    Parameters
    ----------
    settings:
        Of the repository; they have a root.
    scheduler:
        Dask's scheduler, which will hold the lease.
    is_served:
        Tells whether another coordinator of this scheduler has the root open.

    Raises
    ------
    RepositoryTaken
        If another scheduler holds it, or this one does under another path.
    RootUnusable, CorruptRecord
    """
    loop = asyncio.get_running_loop()

    async def identity(holder: Holder) -> str | None:
        """Ask the address in a lease which scheduler it is; None if nobody answers there."""
        # Not asked over the network: this scheduler would say that it is there, which it is, even if it has closed the
        # repository.
        if holder.scheduler_id == scheduler.id:
            return holder.scheduler_id if is_served() else None
        return await identity_at(holder, scheduler.rpc)

    # `take_lease` runs in a thread, since it waits for a file system; its question must go out on the event loop.
    def ask(holder: Holder) -> str | None:
        return asyncio.run_coroutine_threadsafe(identity(holder), loop).result()

    mine = Holder(scheduler.id, scheduler.address, _job())

    def take() -> Lease:
        root = Root.create(settings.root or "", shards=settings.shards, durability=settings.durability)
        return take_lease(root, mine, ask)

    lease = await asyncio.to_thread(take)
    if lease.joined:
        raise RepositoryTaken(
            f"{settings.root} is open in this cluster already under another path: use that path",
            root=settings.root,
            job=lease.holder.job,
            address=lease.holder.address,
        )
    return lease


def _job() -> str:
    for name in JOBS:
        if name in os.environ:
            return f"{name}={os.environ[name]}"
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
