"""Retirement of a model: drop its references at all other owners, then record at its shard that it is retired."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from daskevo.client.session import Session
from daskevo.errors import ClusterError, DaskevoError, ModelLost, RepositoryError, ShardFenced
from daskevo.protocol.messages import Drop, FinishRetirement
from daskevo.protocol.replies import Reply
from daskevo.protocol.state import Retirement
from daskevo.provider.served_shard import ServedShard

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.5, 2.0, 10.0)
"""Waits between attempts, in seconds; the last one repeats."""


async def retire(
    served: ServedShard, retirement: Retirement, session: Session, is_served: Callable[[ServedShard], bool]
) -> None:
    """Drop a retiring model's references and finish; retry until it is done or the shard has moved.

    If an owner does not answer, the others still drop theirs, and only that owner is asked again.

    Raises
    ------
    ShardFenced
        If another provider owns the shard.
    """
    attempt, owners = 0, list(retirement.uses)
    while is_served(served):
        drops = [Drop(owner, retirement.model, retirement.attempt) for owner in owners]
        try:
            answers = await session.send_together(drops)
            owners = [owner for owner, answer in zip(owners, answers, strict=True) if _is_left(answer)]
            found: Exception | None = next((answer for answer in answers if isinstance(answer, DaskevoError)), None)
            # Only after all drops: the record of the retirement is what names the owners that still have to be asked.
            if not owners:
                await served.ask([FinishRetirement(retirement.model, retirement.attempt)])
                return
        except ShardFenced:
            raise
        except (ClusterError, RepositoryError) as error:
            found = error
        logger.info("daskevo: retiring %s goes on later: %s", retirement.model, found)
        await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
        attempt += 1


def _is_left(answer: Reply | DaskevoError) -> bool:
    """Whether an owner must be asked again; not if its tensors are lost, and the references with them."""
    return isinstance(answer, DaskevoError) and not isinstance(answer, ModelLost)
