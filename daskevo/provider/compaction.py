"""What the owner of a shard does for its folder beside all other work: journals start anew, half-dead files shrink."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from daskevo.errors import CorruptRecord, RootUnusable
from daskevo.provider.served_shard import ServedShard
from daskevo.store.tiers import DurableTensors

logger = logging.getLogger(__name__)


async def tidy_shard(served: ServedShard) -> int:
    """Renew a shard's journal if it is long, and rewrite its half-dead segment files; return how many files that took.

    Messages of this shard wait while the journal is renewed, and for nothing else. Where the disk has no room for the
    new file, the old one stays.

    Raises
    ------
    ShardFenced
        If the shard has another owner.
    """
    files = 0
    with contextlib.suppress(RootUnusable):
        files += await served.renew()
    folder, tensors = served.folder, served.tensors
    if folder is None or not isinstance(tensors, DurableTensors):
        return files
    references = served.shard.state.references
    for segment in tensors.segments.half_dead():
        # Of what is staged nothing dies, and its writer may still replace it.
        if references.published.get(segment[0]) != segment[1] or segment not in references.alive:
            continue
        try:
            await asyncio.to_thread(tensors.segments.rewrite, *segment, partial(folder.append, ()))
        except RootUnusable:
            break
        except CorruptRecord as error:
            logger.warning("daskevo: a segment of shard %d can't be rewritten: %s", served.number, error)
            continue
        files += 1
        if segment not in references.alive:
            # It was deleted meanwhile, and has come back under its name.
            await asyncio.to_thread(folder.delete, [segment])
    return files
