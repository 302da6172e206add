"""Models that can't be loaded any more are left out of the index: nobody is offered what he would be refused."""

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
"""Longest wait for what one provider has marked."""


async def forget_lost(host: ShardHost) -> int:
    """Match no model any more that uses tensors of a shard that is lost, or tensors that a repair has marked as gone.

    Marked ones that are there again, as the last repair found, are matched again. A model that is matched all the same,
    since a provider gave no answer, is refused when it is to be read: this saves the way there.

    Returns
    -------
    int
        How many models are left out that were matched before.
    """
    directory = host.session.directory
    table = await directory.refresh()
    try:
        answers, silent = await directory.everywhere("losses", timeout_s=LOOK_S, patient=False)
    except RepositoryError as error:
        # No reason to serve nothing: as if there were none, and nothing comes back by it.
        logger.info("daskevo: what is marked as lost can't be read: %s", error)
        answers, silent = {}, {host.name: error.message}
    # Marks that can't be read come as a text, which `verify` says.
    losses = [Loss.from_json(value) for answer in answers.values() for value in answer if not isinstance(value, str)]
    return leave_out(host, table, losses, again=not silent)


def leave_out(host: ShardHost, table: ShardTable, losses: Iterable[Loss], *, again: bool) -> int:
    """Take models that are lost out of the index, and with `again` bring those back that aren't any more."""
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
