"""Open a repository on a cluster: register the plugins, check every worker, have all shards opened."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from importlib.metadata import entry_points
from typing import Any

from distributed import Client

from daskevo.cluster.settings import Settings, versions
from daskevo.cluster.transport import NoAnswer, PoolTransport
from daskevo.errors import (
    ClusterError,
    InvalidInput,
    NotDeployed,
    RepositoryTaken,
    RootUnusable,
    SchedulerUnreachable,
    VersionMismatch,
)
from daskevo.store.root import check_durability

logger = logging.getLogger(__name__)

_PAUSES_S = (0.2, 1.0)
"""Before what failed because a worker went is tried again: soon the scheduler knows it gone."""


def plugin_class(name: str) -> Any:
    """Return a plugin class by its entry point in the group ``daskevo.plugins``: the library imports nothing upwards.

    Raises
    ------
    NotDeployed
        If the package isn't installed whole.
    """
    found = entry_points(group="daskevo.plugins", name=name)
    if not found:
        raise NotDeployed(f"no plugin {name!r} is installed here: install daskevo with pip, also from a source tree")
    return next(iter(found)).load()


async def deploy(client: Client, settings: Settings, timeout_s: float) -> dict[str, Any]:
    """Register coordinator and providers if need be, and wait until all shards are open.

    Returns
    -------
    What the coordinator says of itself: generation, number of shards, durability.

    Raises
    ------
    SchedulerUnreachable, NoProvider, VersionMismatch, RootUnusable, RepositoryTaken, ShardUnavailable, CorruptRecord,
    DurabilityMismatch
    """
    transport = PoolTransport(client.rpc, _scheduler_address(client), settings.key)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        async with asyncio.timeout(timeout_s):
            facts = await _greet(client, transport, settings, timeout_s)
            if settings.root is not None:
                # Whoever opened it first may have asked for another one.
                check_durability(settings.root, facts["durability"], settings.durability)
            if settings.quota not in (None, facts["quota_bytes"]):
                raise InvalidInput(
                    f"quota={settings.quota} was asked for, but the repository is open on this cluster with "
                    f"{facts['quota_bytes']}: leave the argument out, or open it on another cluster",
                    quota_bytes=facts["quota_bytes"],
                )
            await _register(client, plugin_class("provider")(settings))
            await _check_workers(client, transport, timeout_s)
            # The coordinator gives up first, because it knows which shards are missing.
            patience_s = max(0.9 * (deadline - loop.time()), 0.1)
            await transport.coordinator("assign", timeout_s=timeout_s, patience_s=patience_s)
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
    return facts


async def _greet(client: Client, transport: PoolTransport, settings: Settings, timeout_s: float) -> dict[str, Any]:
    """Have a coordinator, and return what it says of itself.

    One that finds another job's name in the root gives up, or no root any more; a new one finds out what is there now.
    """
    coordinator = plugin_class("coordinator")
    await client.register_plugin(coordinator(settings))
    try:
        return await transport.coordinator("hello", timeout_s=timeout_s, versions=versions())  # type: ignore[no-any-return]
    except (RepositoryTaken, RootUnusable) as error:
        logger.info("daskevo: the repository is opened anew: %s", error)
    await client.register_plugin(coordinator(settings))
    return await transport.coordinator("hello", timeout_s=timeout_s, versions=versions())  # type: ignore[no-any-return]


def _scheduler_address(client: Client) -> str:
    if client.scheduler is None or client.status not in ("running", "connecting"):
        raise SchedulerUnreachable(f"the client is {client.status}: it has no connection to a scheduler", address=None)
    return str(client.scheduler.address)


async def _register(client: Client, plugin: Any) -> None:
    """Register a worker plugin, again if a worker went at that moment, as a trainer does that is being restarted.

    Dask's sending fails as a whole then, whether the others got the plugin or not. Where the scheduler knows it
    already, registering again does nothing: the others have it, and those that come get it.
    """
    for pause_s in _PAUSES_S:
        try:
            await client.register_plugin(plugin)
        except OSError as error:
            logger.info("daskevo: a worker went while the repository was opened: %s", error)
            await asyncio.sleep(pause_s)
        else:
            return
    await client.register_plugin(plugin)


async def _check_workers(client: Client, transport: PoolTransport, timeout_s: float) -> None:
    """Have every worker compare versions and look at the root; the first that doesn't fit is named.

    One that gives no answer is asked again for half of the time limit, unless it has left: a busy machine takes seconds
    to accept a connection. Only what stays silent is in the way.
    """
    patience = time.monotonic() + timeout_s / 2
    for pause_s in itertools.chain(_PAUSES_S, itertools.repeat(_PAUSES_S[-1])):
        workers = (await client.scheduler.identity(n_workers=-1))["workers"]
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
