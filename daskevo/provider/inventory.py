"""Inventory operations of a provider: its models, snapshots of its shards, counts and bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.scopes import holds_snapshots, snapshot_scope
from daskevo.protocol.state import Model
from daskevo.provider.shard_audit import take_snapshot
from daskevo.provider.stats import figures, shown
from daskevo.types import ModelId

if TYPE_CHECKING:
    from daskevo.provider.host import ShardHost

LINEAGE_AT_ONCE = 256
"""Most records in one answer: some have a hundred kilobytes."""
RETIRING_S = 0.5
"""Longest wait for running retirements, in seconds: the provider that one of them waits for may be away for long."""


def models(host: ShardHost, scope: str | None, with_snapshots: bool = False) -> list[Any]:
    """Return ``[id, scope, quality, step, created, labels, own bytes]`` of each published model of this provider."""
    scopes = () if scope is None else (scope, snapshot_scope(scope))
    return [
        _row(model)
        for model in published_models(host)
        if (with_snapshots or not holds_snapshots(model.record.scope)) and (not scopes or model.record.scope in scopes)
    ]


def trainings(host: ShardHost, scope: str) -> list[Any]:
    """Return the row of `models` and ``[metrics, extra, base, bytes of all tensors]`` of each snapshot of a scope."""
    wanted = snapshot_scope(scope)
    return [
        [
            *_row(model),
            model.record.metrics,
            model.record.extra,
            model.record.ancestor,
            host.models.nbytes.get(model.record.model_id, model.record.own_bytes),
        ]
        for model in published_models(host)
        if model.record.scope == wanted
    ]


def published_models(host: ShardHost) -> Iterator[Model]:
    """Yield the provider's published models, snapshots included."""
    for served in host.shards.values():
        for model in served.shard.state.models.values():
            if model.state == "published":
                yield model


def _row(model: Model) -> list[Any]:
    record = model.record
    return [
        record.model_id,
        record.scope,
        record.quality,
        record.step,
        list(record.created),
        sorted(model.held),
        record.own_bytes,
    ]


async def snapshots(host: ShardHost) -> list[Any]:
    """Return the snapshots of the provider's shards for audit and verify."""
    return [await asyncio.to_thread((await take_snapshot(served)).to_wire) for served in host.in_order()]


def lineage(host: ShardHost, shard: int, models: Sequence[str]) -> list[Any] | None:
    """Return the records of models and of their ancestors, in order, until the first that this provider lacks.

    Parameters
    ----------
    shard:
        Shard of the first model; the answer is None if it is not served here.
    """
    if shard not in host.shards:
        return None
    found: dict[ModelId, Any] = {}
    for model in models:
        current: ModelId | None = ModelId(model)
        # Models share ancestors, whose records are sent once.
        while current is not None and current not in found and len(found) < LINEAGE_AT_ONCE:
            record = _record(host, current)
            if record is None:
                break
            found[current] = record.to_wire()
            current = record.ancestor
    return list(found.values())


def _record(host: ShardHost, model_id: ModelId) -> ModelRecord | None:
    known = (served.shard.state.find(model_id) for served in host.shards.values())
    return next((model.record for model in known if model is not None), None)


async def retirements(host: ShardHost) -> int:
    """Wait up to `RETIRING_S` for running retirements; return how many still run."""
    if host.retirements.tasks:
        await asyncio.wait(host.retirements.tasks, timeout=RETIRING_S)
    return len(host.retirements.tasks)


def stats(host: ShardHost) -> dict[str, Any]:
    """Return counts and bytes of this provider."""
    known = figures(host)
    states = [served.shard.state for served in host.shards.values()]
    models = [model for state in states for model in state.models.values()]
    return {
        "shards": sorted(host.shards),
        "models": known["models"],
        "snapshots": sum(model.state == "published" and holds_snapshots(model.record.scope) for model in models),
        "tombstones": sum(model.state == "retired" for model in models) + sum(len(s.tombstones) for s in states),
        "staged": known["staged"],
        "references": sum(1 for state in states for _ in state.references),
        "tensors": known["tensors"],
        "payload_bytes": known["stored_bytes"],
        **{name: known[name] for name in ("file_bytes", "journal_bytes", "memory_bytes", "spilled_bytes")},
        # Tensors of retired models that are kept for descendants and reservations.
        "retained_bytes": sum(
            spec.nbytes
            for state in states
            for model_id, model in state.models.items()
            if model.state != "published"
            for number, spec in model.record.own.items()
            if state.references.there(model_id) >> number & 1
        ),
        "full_copy_bytes": known["full_copy_bytes"],
        "background": len(host.background),
    }


OVERVIEW: Mapping[str, Callable[..., Any]] = {
    "models": models,
    "trainings": trainings,
    "snapshots": snapshots,
    "lineage": lineage,
    "retirements": retirements,
    "stats": stats,
    "shown": shown,
}
"""Name of the operation -> function of the host and its arguments."""
