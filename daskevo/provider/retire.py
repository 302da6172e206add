"""Retirement of a model, as the provider of its shard carries it out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from daskevo.client.run_script import or_error, run_script
from daskevo.client.session import Session
from daskevo.errors import DaskevoError
from daskevo.protocol import scripts
from daskevo.protocol.state import Retirement
from daskevo.protocol.steps import IsServed, OnOwnShard, Step, Together, TryLater
from daskevo.provider.served_shard import ServedShard

logger = logging.getLogger(__name__)

_RETRY_S = (0.1, 0.5, 2.0, 10.0)
"""Waits between attempts, in seconds; the last one repeats."""


async def retire(
    served: ServedShard, retirement: Retirement, session: Session, is_served: Callable[[ServedShard], bool]
) -> None:
    """Carry out `scripts.retire`.

    Raises
    ------
    ShardFenced
        If another provider owns the shard.
    """
    waits = list(_RETRY_S)

    async def carry_out(step: Step) -> Any:
        match step:
            case IsServed():
                return is_served(served)
            case Together(drops):
                answers = await or_error(session.send_together(drops))
                return [answers] * len(drops) if isinstance(answers, DaskevoError) else answers
            case OnOwnShard(messages):
                done = await or_error(served.ask(messages))
                return done if isinstance(done, DaskevoError) else None
            case TryLater(trouble):
                logger.info("daskevo: retiring %s goes on later: %s", retirement.model, trouble)
                await asyncio.sleep(waits.pop(0) if len(waits) > 1 else waits[0])
        return None

    await run_script(scripts.retire(retirement), carry_out)
