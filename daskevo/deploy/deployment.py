"""Open a repository on a cluster: register the plugins, check all workers, and wait until all shards are open."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import time
import uuid
from typing import Any

from distributed import Client

from daskevo.deploy.plugin_classes import plugin_class
from daskevo.deploy.roles import EVALUATION, PROVIDER, has_role
from daskevo.deploy.settings import RepositorySettings, versions
from daskevo.errors import (
    ClusterError,
    DaskevoError,
    InvalidInput,
    NotDeployed,
    RepositoryTaken,
    RootUnusable,
    SchedulerUnreachable,
    ShardUnavailable,
    VersionMismatch,
)
from daskevo.store.root import check_durability
from daskevo.wire.transport import NoAnswer, PoolTransport

logger = logging.getLogger(__name__)

_ABANDON_S = 5.0
_PAUSES_S = (0.2, 1.0)
"""Pause before retrying what failed because a worker has left, in seconds: the scheduler soon notices."""


async def deploy(client: Client, settings: RepositorySettings, timeout_s: float) -> dict[str, Any]:
    """Register coordinator and providers if need be, and wait until all shards are open.

    Parameters
    ----------
    timeout_s:
        What all of it may take; openings of shards that get further may take as long again, and again.

    Returns
    -------
    What the coordinator says of itself: generation, number of shards, durability.

    Raises
    ------
    SchedulerUnreachable, NoProvider, VersionMismatch, RootUnusable, RepositoryTaken, ShardUnavailable, CorruptRecord,
    DurabilityMismatch
    """
    transport = PoolTransport(client.rpc, scheduler_address(client), settings.key)
    opener, opened = uuid.uuid4().hex, False
    try:
        async with asyncio.timeout(timeout_s) as limit:
            facts = await _greet(client, transport, settings, timeout_s, opener)
            if settings.root is not None:
                # Whoever opened it first may have asked for another one.
                check_durability(settings.root, facts["durability"], settings.durability)
            if settings.quota not in (None, facts["quota_bytes"]):
                raise InvalidInput(
                    f"quota={settings.quota} was asked for, but the repository is open on this cluster with "
                    f"{facts['quota_bytes']}: leave the argument out, or open it on another cluster",
                    quota_bytes=facts["quota_bytes"],
                )
            # Installed before the check, which is a method of the plugin. Only then are shards assigned: a worker that
            # doesn't see the root must not get any.
            await _equip(transport, timeout_s)
            await _check_workers(client, transport, timeout_s)
            await _have_opened(transport, timeout_s, opener, limit)
            opened = True
    except TimeoutError as error:
        raise SchedulerUnreachable(
            f"the scheduler at {transport.scheduler_address} did not let the repository open within {timeout_s:.0f} s: "
            "is the cluster running, and reachable from here? On a machine that is very busy more time helps, such as "
            "DASK_DASKEVO__TIMEOUT='2 minutes'",
            address=transport.scheduler_address,
        ) from error
    except OSError as error:
        raise SchedulerUnreachable(
            f"the scheduler at {transport.scheduler_address} can't be reached: {error}",
            address=transport.scheduler_address,
        ) from error
    except ImportError as error:
        raise VersionMismatch(
            f"the scheduler or a worker lacks what this client has installed ({error}): install the same daskevo there",
            client=versions(),
            found=None,
            where="scheduler or worker",
        ) from error
    finally:
        if not opened:
            # What this opening began goes with it. A scheduler that doesn't hear it has other troubles.
            with contextlib.suppress(DaskevoError):
                await transport.coordinator("abandon", timeout_s=_ABANDON_S, opener=opener)
    return facts


async def _have_opened(transport: PoolTransport, timeout_s: float, opener: str, limit: asyncio.Timeout) -> None:
    """Wait until all shards are open; the time limit is extended as long as providers make progress."""
    now = asyncio.get_running_loop().time
    before = None
    while True:
        # The coordinator gives up first, because it knows which shards are missing.
        patience_s = max(0.9 * ((limit.when() or math.inf) - now()), 0.1)
        try:
            await transport.coordinator("assign", timeout_s=timeout_s, opener=opener, patience_s=patience_s)
        except ShardUnavailable as error:
            far = error.facts.get("read"), len(error.facts.get("shards", ()))
            # Nothing was read, or no more than at the last look: waiting for longer would not help.
            if not far[0] or far == before:
                raise
            logger.info("%s", error.message)
            before = far
            limit.reschedule(now() + timeout_s)
        else:
            return


async def _greet(
    client: Client, transport: PoolTransport, settings: RepositorySettings, timeout_s: float, opener: str
) -> dict[str, Any]:
    """Start the coordinator if there is none, and return its facts.

    One that finds another job's name in the root gives up, or no root any more; a new one finds out what is there now.
    So does one after that which was closed just now.
    """
    coordinator = plugin_class("coordinator")
    await client.register_plugin(coordinator(settings, opener))
    try:
        return await transport.coordinator("hello", timeout_s=timeout_s, versions=versions(), opener=opener)  # type: ignore[no-any-return]
    except (RepositoryTaken, RootUnusable, NotDeployed) as error:
        logger.info("daskevo: the repository is opened anew: %s", error)
    await client.register_plugin(coordinator(settings, opener))
    return await transport.coordinator("hello", timeout_s=timeout_s, versions=versions(), opener=opener)  # type: ignore[no-any-return]


def scheduler_address(client: Client) -> str:
    """Return the address of a client's scheduler; raises SchedulerUnreachable if the client is closed."""
    if client.scheduler is None or client.status not in ("running", "connecting"):
        raise SchedulerUnreachable(f"the client is {client.status}: it has no connection to a scheduler", address=None)
    return str(client.scheduler.address)


async def _equip(transport: PoolTransport, timeout_s: float) -> None:
    """Install the plugin on all workers with a role; raise the error of the first that can't take it."""
    for name, address, trouble in await transport.coordinator("equip", timeout_s=timeout_s):
        where = f"worker {name!r} at {address}"
        raise VersionMismatch(
            f"{where} can't take part in the repository: {trouble}. Install the same daskevo there, or start it "
            f"without the resources {PROVIDER!r} and {EVALUATION!r}: workers without them are left alone",
            client=versions(),
            found=None,
            where=where,
        )


async def _check_workers(client: Client, transport: PoolTransport, timeout_s: float) -> None:
    """Have every worker with a role compare versions and look at the root; the first that doesn't fit is named.

    One that gives no answer is asked again for half of the time limit, unless it has left: a busy machine takes seconds
    to accept a connection. Only what stays silent is in the way.
    """
    patience = time.monotonic() + timeout_s / 2
    for pause_s in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
        # Asked anew in each round: a worker that has left must not be waited for, nor a new one be passed over.
        known = (await client.scheduler.identity(n_workers=-1))["workers"]
        workers = {address: worker for address, worker in known.items() if has_role(worker["resources"])}
        results = await asyncio.gather(
            *(transport.provider(address, "check", timeout_s=timeout_s, versions=versions()) for address in workers),
            return_exceptions=True,
        )
        silent = {}
        for address, result in zip(workers, results, strict=True):
            if isinstance(result, NoAnswer):
                silent[address] = result
            elif isinstance(result, BaseException):
                raise result
        if not silent:
            return
        if time.monotonic() > patience:
            address, reason = next(iter(silent.items()))
            raise ClusterError(
                f"worker {workers[address].get('name')!r} did not answer while the repository was opened: "
                f"{reason.reason}",
                worker=address,
            ) from reason
        await asyncio.sleep(pause_s)
