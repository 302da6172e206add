"""Statistics of a provider for metrics and the dashboard: figures, shards, scopes, labels, and some of its models.

Their size is bounded for repositories of any size. They are gathered shard by shard, and messages are answered in
between.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daskevo.protocol.references import numbers_in
from daskevo.protocol.scopes import holds_snapshots
from daskevo.protocol.state import Model
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId, Tick

if TYPE_CHECKING:
    from daskevo.provider.host import ShardHost
    from daskevo.provider.served_shard import ServedShard

MOST_LABELS = 20
"""Most labels, and most scopes, that are listed by name."""


@dataclass
class _Gathered:
    """Statistics of the shards visited so far."""

    references: int = 0
    reservations: int = 0

    def __post_init__(self) -> None:
        self.shards: list[list[Any]] = []
        self.scopes: dict[str, list[Any]] = {}
        self.labels: Counter[str] = Counter()
        self.models: list[tuple[ServedShard, ModelId, Model, int]] = []


async def shown(host: ShardHost, models: int = 0, live: Sequence[Any] = ()) -> dict[str, Any]:
    """Return the statistics of a provider.

    Parameters
    ----------
    models:
        Most models to list; if there are more, those with the most heirs and those with the best quality are chosen.
    live:
        Running attempts, whose claims are counted as reservations.

    Returns
    -------
    dict
        ``figures``, ``tally`` (:mod:`daskevo.provider.call_counts`), ``shards`` (number, models, bytes put there, bytes
        of the journal, messages), ``scopes`` (name, objective, models, bytes put, bytes of full copies), ``labels``
        (label, models), ``models`` (see :func:`row_of`), ``models_in_all`` (all that could be listed), and
        ``spent_s`` (seconds for which this blocked the event loop, in all).
    """
    began, waited = time.perf_counter(), 0.0
    attempts = {Tick.parse(attempt) for attempt in live}
    found = _Gathered()
    for served in host.in_order():
        _look_at(host, served, attempts, found)
        # Let messages be answered between shards; this time does not count as spent.
        paused = time.perf_counter()
        await asyncio.sleep(0)
        waited += time.perf_counter() - paused
    chosen = _choose(found.models, models)
    rows = [row_of(host, served, model_id, model) for served, model_id, model, _ in chosen]
    scopes = heapq.nlargest(MOST_LABELS, found.scopes.items(), key=lambda item: item[1][1])
    return {
        "figures": figures(host) | {"references": found.references, "reservations": found.reservations},
        "tally": host.tally.to_wire(),
        "shards": found.shards,
        "scopes": [[scope, *counts] for scope, counts in scopes],
        "labels": [list(item) for item in found.labels.most_common(MOST_LABELS)],
        "models": rows,
        "models_in_all": len(found.models),
        "spent_s": time.perf_counter() - began - waited,
    }


def figures(host: ShardHost) -> dict[str, Any]:
    """Return counts and bytes that are known without visiting all models, cheap enough for each scrape of metrics."""
    durable = isinstance(host.tensors, DurableTensors)
    stored, memory = host.tensors.payload_bytes, host.tensors.memory_bytes
    shards = list(host.shards.values())
    return {
        "shards": len(shards),
        "models": len(host.models.nbytes),
        "staged": sum(len(attempts) for served in shards for attempts in served.shard.state.staged.values()),
        "tensors": len(host.tensors),
        "stored_bytes": stored,
        # Dead tensors in files that are still in use are included.
        "file_bytes": host.tensors.stored_bytes if durable else 0,
        "journal_bytes": sum(served.folder.journal_bytes for served in shards if served.folder is not None),
        "memory_bytes": memory,
        "spilled_bytes": 0 if durable else stored - memory,
        "full_copy_bytes": sum(host.models.nbytes.values()),
        "retirements": len(host.retirements.tasks),
    }


def _look_at(host: ShardHost, served: ServedShard, live: Collection[Attempt], found: _Gathered) -> None:
    """Add one shard to the statistics."""
    state, put_bytes = served.shard.state, 0
    for owner, claims in state.references.bits.items():
        for claim in claims:
            if claim[1] in live:
                found.reservations += 1
            # Bits of a model on its own tensors are no references: the paper counts other models.
            elif claim[0] != owner:
                found.references += 1
    for model_id, model in state.models.items():
        record = model.record
        if not holds_snapshots(record.scope):
            claims = state.references.bits.get(model_id, {})
            heirs = sum(1 for child, _ in claims if child is not None and child != model_id)
            if model.state == "published" or heirs:
                found.models.append((served, model_id, model, heirs))
        if model.state != "published":
            continue
        own_bytes = record.own_bytes
        put_bytes += own_bytes
        scope = found.scopes.setdefault(record.scope, [record.objective, 0, 0, 0])
        scope[1] += 1
        scope[2] += own_bytes
        scope[3] += host.models.nbytes.get(model_id, own_bytes)
        found.labels.update(list(model.held))
    journal = 0 if served.folder is None else served.folder.journal_bytes
    found.shards.append([served.number, len(state.models), put_bytes, journal, served.asked])


def _choose(
    models: list[tuple[ServedShard, ModelId, Model, int]], most: int
) -> list[tuple[ServedShard, ModelId, Model, int]]:
    """Choose the models to list: all, or half of `most` by number of heirs and the rest by quality."""
    if len(models) <= most:
        return models
    chosen = {one[1]: one for one in heapq.nlargest((most + 1) // 2, models, key=lambda one: one[3])}
    others = (one for one in models if one[1] not in chosen)
    return [*chosen.values(), *heapq.nlargest(most - len(chosen), others, key=lambda one: _rank(one[2]))]


def _rank(model: Model) -> float:
    record = model.record
    if record.quality is None or record.objective is None:
        return float("-inf")
    # Called for tens of thousands of models: parsing each objective would block the event loop.
    return -record.quality if record.objective.startswith("min ") else record.quality


def row_of(host: ShardHost, served: ServedShard, model_id: ModelId, model: Model) -> list[Any]:
    """Return the row of a model.

    Its items are: id, scope, state, objective, quality, step, ancestor, the other model that stored most of its
    tensors, number of these tensors, bytes of its own tensors, bytes of a full copy, number of own tensors, number of
    all tensors, heirs, own tensors that heirs use, and their bytes.
    """
    record = model.record
    claims: Mapping[Any, int] = served.shard.state.references.bits.get(model_id, {})
    used, heirs = 0, 0
    for (child, _), mask in claims.items():
        if child is not None and child != model_id:
            used |= mask
            heirs += 1
    owners = ((len(numbers), owner) for owner, numbers in record.owner_map.owners.items() if owner != model_id)
    stored, contributor = max(owners, default=(0, None))
    given = [record.own[number].nbytes for number in numbers_in(used) if number in record.own]
    return [
        model_id,
        record.scope,
        model.state,
        record.objective,
        record.quality,
        record.step,
        record.ancestor,
        contributor,
        stored,
        record.own_bytes,
        host.models.nbytes.get(model_id, 0),
        len(record.own),
        len(record.owner_map.entries),
        heirs,
        len(given),
        sum(given),
    ]
