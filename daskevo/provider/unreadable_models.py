"""Remove models with lost tensors from the index, so that queries don't match models that can't be read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from daskevo.errors import RepositoryError
from daskevo.protocol.owner_map import OwnerMap
from daskevo.protocol.scopes import holds_snapshots
from daskevo.protocol.shard_table import ShardTable
from daskevo.provider.host import ShardHost
from daskevo.provider.published_models import published
from daskevo.store.losses import Loss
from daskevo.types import ModelId

logger = logging.getLogger(__name__)

LOOK_S = 10.0
"""Longest wait for the marks of one provider, in seconds."""


async def forget_lost(host: ShardHost) -> int:
    """Remove models from the index that use tensors of a lost shard, or tensors that a repair has marked as lost.

    Models whose tensors the last repair found again return to the index. If a provider does not answer, a model with
    lost tensors may still be matched; reading it then raises an error, which this only avoids.

    Returns
    -------
    int
        Number of models removed from the index.
    """
    directory = host.session.directory
    table = await directory.refresh()
    try:
        answers, silent = await directory.everywhere("losses", timeout_s=LOOK_S, patient=False)
    except RepositoryError as error:
        # Matching goes on without the marks. `silent` is not empty then, so no model returns to the index by mistake.
        logger.info("daskevo: what is marked as lost can't be read: %s", error)
        answers, silent = {}, {host.name: error.message}
    # Unreadable marks come as a text, which `verify` reports.
    losses = [Loss.from_json(value) for answer in answers.values() for value in answer if not isinstance(value, str)]
    return leave_out(host, table, losses, again=not silent)


def leave_out(host: ShardHost, table: ShardTable, losses: Iterable[Loss], *, again: bool) -> int:
    """Remove models with lost tensors from the index; with `again`, return those that have none any more."""
    marks = _marks(losses)
    left_out, back = [], []
    for served in host.shards.values():
        for model_id, record in published(served.shard).items():
            if holds_snapshots(record.scope):
                continue  # never in the index
            lost = _uses(record.owner_map, marks) or table.lost_owners(record.owner_map, record.attempt)
            if lost and model_id in host.models.index:
                left_out.append(model_id)
            elif not lost and model_id not in host.models.index and again:
                back.append(record)
    for model_id in left_out:
        host.models.leave_out(model_id)
    for record in back:
        host.models.take_back(record)
    return len(left_out)


def _marks(losses: Iterable[Loss]) -> dict[ModelId, frozenset[int]]:
    marks: dict[ModelId, frozenset[int]] = {}
    for loss in losses:
        marks[loss.owner] = marks.get(loss.owner, frozenset()) | loss.numbers
    return marks


def _uses(owner_map: OwnerMap, marks: Mapping[ModelId, frozenset[int]]) -> bool:
    return bool(marks) and any(numbers & marks.get(owner, frozenset()) for owner, numbers in owner_map.owners.items())
