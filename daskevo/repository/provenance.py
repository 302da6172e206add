"""The part of a handle that says where models come from."""

from __future__ import annotations

from typing import Any

from daskevo.cluster.session import Session
from daskevo.ownership.lineage import Contribution, contributors
from daskevo.ownership.model_record import ModelRecord
from daskevo.repository.handle_base import HandleBase
from daskevo.types import ModelId, check_name


class Provenance(HandleBase):
    """Lineage, common ancestor, contributors."""

    def lineage(self, model_id: str) -> Any:
        """Return the records of a model and of those it inherited from, one after the other, retired ones included.

        Raises
        ------
        UnknownModel
        """
        return self._run(_lineage, ModelId(check_name(model_id)))

    def common_ancestor(self, first: str, second: str) -> Any:
        """Return the id of the nearest model that both inherited from (each counts as its own), or None."""
        ids = ModelId(check_name(first)), ModelId(check_name(second))

        async def find(session: Session) -> ModelId | None:
            lineages = [await _lineage(session, model_id) for model_id in ids]
            others = {record.model_id for record in lineages[1]}
            return next((record.model_id for record in lineages[0] if record.model_id in others), None)

        return self._run(find)

    def contributors(self, model_id: str) -> Any:
        """Return which models stored the tensors of a published model, with their bytes, largest share first."""
        wanted = ModelId(check_name(model_id))

        async def find(session: Session) -> list[Contribution]:
            record = await session.open(wanted)
            keys = record.architecture.tensors
            return contributors(record, [key.spec for key in keys])

        return self._run(find)


async def _lineage(session: Session, model_id: ModelId) -> list[ModelRecord]:
    found: list[ModelRecord] = []
    current: ModelId | None = model_id
    while current is not None and all(record.model_id != current for record in found):
        standing = await session.standing(current)
        if standing.record is None:
            if not found:
                raise await session.missing(model_id, "unknown")
            break
        found.append(standing.record)
        current = standing.record.ancestor
    return found
