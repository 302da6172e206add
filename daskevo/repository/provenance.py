"""Lineage methods of the repository handle."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from daskevo.client.session import Session
from daskevo.errors import DaskevoError
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.lineage import Contribution, contributors
from daskevo.protocol.model_record import ModelRecord
from daskevo.repository.handle_base import HandleBase
from daskevo.types import ModelId, check_name


class Provenance(HandleBase):
    """Lineage, common ancestor, contributors."""

    def lineage(self, model_id: str) -> list[ModelRecord]:
        """Return the records of a model and of its ancestors, in order, retired ones included.

        Raises
        ------
        UnknownModel
        """
        return self._run(_lineage, ModelId(check_name(model_id)))

    def common_ancestor(self, first: str, second: str) -> ModelId | None:
        """Return the id of the nearest model that both inherited from (each counts as its own), or None."""
        ids = ModelId(check_name(first)), ModelId(check_name(second))

        async def find(session: Session) -> ModelId | None:
            lineages = [await _lineage(session, model_id) for model_id in ids]
            others = {record.model_id for record in lineages[1]}
            return next((record.model_id for record in lineages[0] if record.model_id in others), None)

        return self._run(find)

    def contributors(self, model_id: str) -> list[Contribution]:
        """Return the models that stored the tensors of a published model, with their bytes, largest share first."""
        wanted = ModelId(check_name(model_id))

        async def find(session: Session) -> list[Contribution]:
            record = await session.open(wanted)
            keys = record.architecture.tensors
            return contributors(record, [key.spec for key in keys])

        return self._run(find)


async def _lineage(session: Session, model_id: ModelId) -> list[ModelRecord]:
    known: dict[ModelId, ModelRecord] = {}
    found: dict[ModelId, ModelRecord] = {}
    current: ModelId | None = model_id
    while current is not None and current not in found:
        if current not in known:
            # Most further ancestors own tensors in the map, so ask for them in the same messages.
            last = next(reversed(found.values()), None)
            owners = [] if last is None else [owner for owner in last.inherited if owner not in known]
            await _learn(session, [current, *owners], known)
        if current not in known:
            # Of the model itself there must be a record. An ancestor's may be gone with a damaged or lost shard: the
            # lineage ends there, and is still of use.
            if not found:
                raise await session.missing(model_id, "unknown")
            break
        found[current] = known[current]
        current = known[current].ancestor
    return list(found.values())


async def _learn(session: Session, models: Sequence[ModelId], known: dict[ModelId, ModelRecord]) -> None:
    """Add the records of models and of their ancestors to `known`, with one message per provider.

    Each provider returns the records that it has. Only the answer about the first model is required.
    """
    table = await session.directory.table()
    groups: dict[str, list[ModelId]] = {}
    for model in models:
        place = table.place(model)
        groups.setdefault("" if place is None else place.address, []).append(model)

    async def ask(some: Sequence[ModelId]) -> None:
        try:
            answer = await session.directory.call(
                shard_of(some[0], table.shards), "lineage", timeout_s=session.timeout_s, models=list(some)
            )
        except DaskevoError:
            if models[0] in some:
                raise
        else:
            known.update({record.model_id: record for record in map(ModelRecord.from_wire, answer)})

    await asyncio.gather(*map(ask, groups.values()))
