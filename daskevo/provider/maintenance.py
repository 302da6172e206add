"""Background maintenance of a provider's shards: an audit every ten minutes, compaction every 30 seconds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from daskevo.client.session import Session
from daskevo.errors import ClusterError, RepositoryError, ShardFenced
from daskevo.provider.compaction import tidy_shard
from daskevo.provider.served_shard import ServedShard
from daskevo.provider.shard_audit import audit_shard

logger = logging.getLogger(__name__)

AUDIT_EVERY_S = 600.0
TIDY_EVERY_S = 30.0


class Maintained(Protocol):
    """Interface of the host that maintenance uses."""

    shards: dict[int, ServedShard]

    @property
    def name(self) -> str: ...
    @property
    def session(self) -> Session: ...
    def in_order(self) -> list[ServedShard]:
        """Return all shards, in the order of their audits."""
        ...

    def take_up_retirements(self, served: ServedShard) -> None:
        """Continue the retirements that a shard has begun."""
        ...

    def fenced(self, served: ServedShard, error: ShardFenced) -> None:
        """Give up a shard that another provider has opened."""
        ...


async def keep_order(host: Maintained) -> None:
    """Audit and compact the provider's shards until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        next_audit = loop.time() + AUDIT_EVERY_S
        while loop.time() < next_audit:
            await asyncio.sleep(TIDY_EVERY_S)
            await tidy(host)
        try:
            await audit(host)
        except (ClusterError, RepositoryError) as error:
            logger.info("daskevo: audit of %s was cut short: %s", host.name, error)


async def audit(host: Maintained, give_up_lost: bool = False) -> int:
    """Audit a provider's shards now; return the number of drops and deleted files; `give_up_lost` as in `remedies`."""
    done = sum([await _audit(host, served, give_up_lost) for served in host.in_order()])
    # What the audit dropped may have left files half dead.
    await tidy(host)
    return done


async def audit_opened(host: Maintained, numbers: Sequence[int]) -> None:
    """Audit newly opened shards that are still served here."""
    for number in numbers:
        if number in host.shards:
            await _audit(host, host.shards[number])


async def _audit(host: Maintained, served: ServedShard, give_up_lost: bool = False) -> int:
    host.take_up_retirements(served)
    try:
        return await audit_shard(served, host.session, give_up_lost=give_up_lost)
    except ShardFenced as error:
        host.fenced(served, error)
    except RepositoryError as error:
        # Log it only, so that the other shards are still audited.
        logger.warning("daskevo: the audit of shard %d by %s was cut short: %s", served.number, host.name, error)
    return 0


async def tidy(host: Maintained) -> int:
    """Renew long journals and rewrite half-dead segment files; return the number of files written."""
    return sum([await _tidy(host, served) for served in host.in_order()])


async def _tidy(host: Maintained, served: ServedShard) -> int:
    try:
        return await tidy_shard(served)
    except ShardFenced as error:
        host.fenced(served, error)
    except RepositoryError as error:
        logger.info("daskevo: %s leaves the folder of shard %d as it is: %s", host.name, served.number, error)
    return 0
