"""Retirement carried out: a model's bits are dropped at all other owners, then home writes that it is retired."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from daskevo.cluster.serving import ServedShard
from daskevo.cluster.session import Session
from daskevo.errors import ClusterError, ModelLost, RepositoryError, ShardFenced
from daskevo.ownership.messages import Drop, FinishRetirement
from daskevo.ownership.state import Retirement

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.5, 2.0, 10.0)


async def retire(
    served: ServedShard, retirement: Retirement, session: Session, is_served: Callable[[ServedShard], bool]
) -> None:
    """Drop a retiring model's bits and finish, again and again until it is done or the shard isn't served here.

    Raises
    ------
    ShardFenced
        If the shard has another owner.
    """
    attempt = 0
    while is_served(served):
        try:
            for owner in retirement.uses:
                shard = await session.directory.shard_of(owner)
                try:
                    await session.directory.ask(
                        shard, [Drop(owner, retirement.model, retirement.attempt)], session.timeout_s
                    )
                except ModelLost:
                    continue
            await served.ask([FinishRetirement(retirement.model, retirement.attempt)])
        except ShardFenced:
            raise
        except (ClusterError, RepositoryError) as error:
            logger.info("daskevo: retiring %s goes on later: %s", retirement.model, error)
            await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
            attempt += 1
        else:
            return
