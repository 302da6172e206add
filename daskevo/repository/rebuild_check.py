"""Check that stored models can be loaded here, by rebuilding each from its architecture graph, without weights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from daskevo.client.session import Session
from daskevo.errors import CannotRebuild, RepositoryError
from daskevo.graph.attached import detach, is_snapshot
from daskevo.protocol.audit import Difference
from daskevo.protocol.model_record import ModelRecord
from daskevo.types import ModelId


async def read_records(session: Session, names: list[ModelId]) -> list[ModelRecord]:
    """Return the records of models, without those that were retired meanwhile or are lost."""
    found = await asyncio.gather(*map(session.open, names), return_exceptions=True)
    for one in found:
        # A provider that doesn't answer is none of the two cases: its models would count as checked.
        if isinstance(one, BaseException) and not isinstance(one, RepositoryError):
            raise one
    return [one for one in found if isinstance(one, ModelRecord)]


def not_rebuilt(records: list[ModelRecord], custom_objects: Mapping[str, Any] | None = None) -> list[Difference]:
    """Return which models can't be rebuilt by the Keras and the classes that are here, and at which layer.

    Those that can be, by classes whose code is another than when they were stored, are differences of their own kind.
    Equal architectures are rebuilt once.
    """
    from daskevo.models import check_rebuild

    cannot: dict[str, str] = {}
    changed: dict[str, Any] = {}
    found = []
    for record in records:
        graph = detach(record.architecture).graph if is_snapshot(record.architecture) else record.architecture
        if graph is None:
            continue  # a training loop of its own rebuilds what it trains
        if graph.text not in cannot and graph.text not in changed:
            try:
                changed[graph.text] = check_rebuild(graph, custom_objects)
            except CannotRebuild as error:
                cannot[graph.text] = error.message
        if graph.text in cannot:
            words = f"{record.model_id} can't be loaded here: {cannot[graph.text]}"
            found.append(Difference("not rebuilt", record.model_id, words))
        elif changed[graph.text]:
            words = changed[graph.text].words(record.model_id)
            found.append(Difference("changed code", record.model_id, words))
    return found
