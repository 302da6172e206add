"""Status of single models from the journals of their shards, without a cluster and without reading all shards."""

from __future__ import annotations

import os
from collections.abc import Iterable

from daskevo.errors import CorruptRecord
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Status
from daskevo.protocol.records import Generation, records_from_json
from daskevo.protocol.replies import Standing, StandingState
from daskevo.protocol.shard import Shard
from daskevo.store.root import Root
from daskevo.store.shard_state import read_shard
from daskevo.types import ModelId


def standings(root: str | os.PathLike[str], models: Iterable[ModelId]) -> dict[ModelId, StandingState]:
    """Return the status of models; those in damaged shards are left out.

    Parameters
    ----------
    root:
        Root of the repository; a job may have it open.
    models:
        A few models; the shard of each is read.

    Raises
    ------
    RootUnusable, CorruptRecord
        If the root can't be read.
    """
    opened = Root.open(root)
    homes: dict[int, list[ModelId]] = {}
    for model_id in models:
        homes.setdefault(shard_of(model_id, opened.shards), []).append(model_id)
    found: dict[ModelId, StandingState] = {}
    for number, names in homes.items():
        try:
            records = records_from_json(read_shard(opened.path, number))
            # The last one: under a later generation, what is staged would be freed and count as unknown.
            generation = max((record.generation for record in records if isinstance(record, Generation)), default=0)
            shard = Shard(number, generation, records)
        except CorruptRecord:
            continue
        for name in names:
            reply = shard.decide(Status(name)).reply
            if isinstance(reply, Standing):
                found[name] = reply.state
    return found
