"""Records of models made by hand: chains of Dense layers, whose tensors belong to whom a test says."""

from __future__ import annotations

from typing import Any

from daskevo.graph import ArchitectureGraph
from daskevo.protocol.lineage import contributors
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.types import ModelId, Tick
from daskevo_workflows.exporting.facts import Known


def record(name: str, graph: ArchitectureGraph, owners: dict[int, str] | None = None, **fields: Any) -> ModelRecord:
    """Return a record; tensors belong to the model itself but for those in `owners`, which had 90 steps and more."""
    owners = owners or {}
    entries = [
        OwnerEntry(ModelId(owners.get(number, name)), number, f"{number:032x}", 90 + number if number in owners else 45)
        for number in range(len(graph.tensors))
    ]
    own = {number: key.spec for number, key in enumerate(graph.tensors) if number not in owners}
    facts: dict[str, Any] = {
        "objective": "max val_accuracy",
        "quality": 0.5,
        "metrics": {"val_accuracy": 0.5},
        "step": 45,
    }
    return ModelRecord(
        ModelId(name), Tick(1, 1), "digits", graph.text, OwnerMap.of(entries), own, Tick(1, 1), **{**facts, **fields}
    )


def known(one: ModelRecord, *lineage: ModelRecord, labels: tuple[str, ...] = ("user:kept",)) -> Known:
    """Return what a repository would know of a model."""
    graph = one.architecture
    return Known(
        one,
        graph,
        [(one, "published"), *((other, "retired") for other in lineage)],
        contributors(one, [key.spec for key in graph.tensors]),
        labels,
        "the-repository",
    )
