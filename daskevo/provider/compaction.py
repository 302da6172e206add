"""Compaction of a shard's folder in the background: replace long journals, and shrink half-dead segment files."""

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
    """Renew a shard's journal if it is long, and rewrite its half-dead segment files; return the number of files.

    Messages to this shard wait while the journal is renewed, but not for segments. If the disk has no space for a new
    file, the old one stays.

    Raises
    ------
    ShardFenced
        If another provider owns the shard.
    """
    files = 0
    with contextlib.suppress(RootUnusable):
        files += await served.renew()
    folder, tensors = served.folder, served.tensors
    if folder is None or not isinstance(tensors, DurableTensors):
        return files
    references = served.shard.state.references
    for segment in tensors.segments.half_dead():
        # Published models only: tensors of staged models don't die, and a writer may still replace its file.
        if references.published.get(segment[0]) != segment[1] or segment not in references.alive:
            continue
        try:
            await asyncio.to_thread(tensors.segments.rewrite, *segment, partial(folder.append, ()))
        except RootUnusable:
            break  # the disk is full or gone: further files would fail, too
        except CorruptRecord as error:
            logger.warning("daskevo: a segment of shard %d can't be rewritten: %s", served.number, error)
            continue
        files += 1
        if segment not in references.alive:
            # The model was retired and its file deleted meanwhile; the rewrite has created it again.
            await asyncio.to_thread(folder.delete, [segment])
    return files
