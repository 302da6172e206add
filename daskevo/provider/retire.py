"""Retirement carried out: a model's bits are dropped at all other owners, then home writes that it is retired."""

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


async def retire(
    served: ServedShard, retirement: Retirement, session: Session, is_served: Callable[[ServedShard], bool]
) -> None:
    """Drop a retiring model's bits and finish, again and again until it is done or the shard isn't served here.

    An owner that can't be asked keeps no other from giving its tensors back: it alone is asked again.

    Raises
    ------
    ShardFenced
        If the shard has another owner.
    """
    attempt, owners = 0, list(retirement.uses)
    while is_served(served):
        drops = [Drop(owner, retirement.model, retirement.attempt) for owner in owners]
        try:
            answers = await session.send_together(drops)
            owners = [owner for owner, answer in zip(owners, answers, strict=True) if _is_left(answer)]
            found: Exception | None = next((answer for answer in answers if isinstance(answer, DaskevoError)), None)
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
    """Whether an owner has to be asked again; one whose tensors went with its memory need not be."""
    return isinstance(answer, DaskevoError) and not isinstance(answer, ModelLost)
