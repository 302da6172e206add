"""Compute the facts of a model card from the repository's and the run's records. Pure."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from daskevo.errors import CorruptRecord
from daskevo.graph import ArchitectureGraph
from daskevo.protocol.lineage import Contribution
from daskevo.protocol.model_record import ModelRecord
from daskevo.repository.prefix_boundary import facts_of as facts_of_vertex
from daskevo.search import TransferReport
from daskevo.types import JSON, Objective
from daskevo_workflows.exporting.origins import ModelOrigin, Origins
from daskevo_workflows.exporting.space_facts import space_facts


@dataclass(frozen=True)
class Known:
    """Everything that a repository knows about a model.

    Parameters
    ----------
    record, graph:
        Its record, and the architecture graph of the loadable model (for a snapshot, the model's part).
    lineage:
        Records of the model and of its ancestors, each with its status (``published``, ...).
    contributors:
        The models that store its tensors.
    labels:
        Its labels.
    repository_id:
        Of the repository.
    """

    record: ModelRecord
    graph: ArchitectureGraph
    lineage: Sequence[tuple[ModelRecord, str]]
    contributors: Sequence[Contribution]
    labels: Sequence[str]
    repository_id: str


def facts_of(known: Known, origins: Origins | None, data: JSON = None) -> dict[str, JSON]:
    """Return the facts about a model, without its file and versions.

    Parameters
    ----------
    origins:
        The run's record; None if there is none.
    data:
        Result of `data_facts`; None if data were not asked for.
    """
    record = known.record
    origin = ModelOrigin() if origins is None else origins.of(record.model_id)
    facts = {
        "model": record.model_id,
        "quality": _quality(record),
        "training": _training(record, origins, origin),
        "size": _size(known),
        "space": _space(origins, origin),
        "data": _data(known, origins, data),
        "lineage": _lineage(known, origins),
        "contributors": _contributors(known),
        "inherited": _inherited(record, origin),
        "layers": layers_of(record, known.graph),
        "repository": {"id": known.repository_id, "scope": record.scope, "labels": sorted(known.labels)},
        "run": _run(origins, origin),
    }
    return {**facts, "unknown": _unknown(facts, origins, origin, data)}


def _quality(record: ModelRecord) -> dict[str, JSON]:
    goal = None if record.objective is None else Objective.parse(record.objective)
    return {
        "metric": None if goal is None else goal.metric,
        "direction": None if goal is None else goal.direction,
        "value": record.quality,
        "step": record.step,
        "metrics": dict(record.metrics),
    }


def _training(record: ModelRecord, origins: Origins | None, origin: ModelOrigin) -> dict[str, JSON]:
    identity: Mapping[str, Any] = {} if origins is None else origins.info.identity
    # A model of another run in the same repository: the settings of this run are not its own.
    policy = identity.get("policy") if origin.request is not None else None
    policy = policy if isinstance(policy, Mapping) else {}
    asked: Mapping[str, int] = {} if origin.request is None else origin.request.training
    report = origin.report
    return {
        "steps": record.step,
        "epochs": asked.get("epochs", policy.get("epochs")),
        "batch_size": asked.get("batch_size", policy.get("batch_size")),
        "seed": identity.get("seed") if origin.request is not None else None,
        "seconds": None if report is None else math.fsum(report.seconds.values()),
        "ended": None if report is None else said_time(report.ended),
        "trainer": None if report is None else report.worker,
        "hyperparameters": _hyperparameters(record),
    }


def _hyperparameters(record: ModelRecord) -> JSON:
    """Return the configuration of a study's snapshot; None for other models."""
    match record.extra:
        case {"trajectory": {"configuration": dict(configuration)}}:
            return configuration
    return None


def _size(known: Known) -> dict[str, JSON]:
    graph = known.graph
    return {
        "parameters": graph.parameters,
        "layers": len(graph.layers),
        "tensors": len(graph.tensors),
        "bytes": graph.nbytes,
        "stored_bytes": known.record.own_bytes,
    }


def _space(origins: Origins | None, origin: ModelOrigin) -> JSON:
    if origins is None or origin.request is None:
        return None
    return space_facts(origins.info.identity.get("space"), origin.choices)


def _data(known: Known, origins: Origins | None, data: JSON) -> dict[str, JSON]:
    problem = None if origins is None else origins.info.identity.get("problem")
    problem = problem if isinstance(problem, Mapping) else {}
    return {
        "scope": known.record.scope,
        "problem": problem.get("name"),
        "problem_digest": problem.get("content"),
        "settings": problem.get("settings"),
        "inputs": _flows(known.graph, [(vertex, 0) for vertex in known.graph.inputs]),
        "outputs": _flows(known.graph, known.graph.outputs),
        **({} if data is None else dict(data)),
    }


def _flows(graph: ArchitectureGraph, places: Sequence[tuple[int, int]]) -> list[JSON]:
    """Return shape (batch first, None: any) and dtype of a model's inputs or outputs, by layer name."""
    found: list[JSON] = []
    for vertex, slot in places:
        # A layer whose record has no output shapes is left out: a card with less is better than no export.
        name = graph.layers[graph.vertices[vertex].layer].name
        with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):
            shape, dtype, *_ = facts_of_vertex(graph.vertices[vertex])["outputs"][slot]
            found.append({"name": name, "shape": [None, *shape], "dtype": str(dtype)})
    return found


def _lineage(known: Known, origins: Origins | None) -> list[JSON]:
    return [
        {
            "model": record.model_id,
            "state": state,
            "quality": record.quality,
            "step": record.step,
            "parent": record.parent,
            "ended": said_time(ended_of(record, origins)),
        }
        for record, state in known.lineage
    ]


def ended_of(record: ModelRecord, origins: Origins | None) -> float | None:
    """Return when a model was put, in seconds since the epoch, from the run's record or its own; None if not known."""
    found = None if origins is None else origins.ended(record.model_id)
    match record.extra:
        case {"report": {"ended": int() | float() as ended}} if found is None:
            return float(ended)
    return found


def _contributors(known: Known) -> list[JSON]:
    # 1 for a model without tensors: shares of nothing are 0.
    whole = sum(share.nbytes for share in known.contributors) or 1
    return [
        {
            "model": share.owner,
            "tensors": len(share.numbers),
            "bytes": share.nbytes,
            "share": round(share.nbytes / whole, 6),
        }
        for share in known.contributors
    ]


def _inherited(record: ModelRecord, origin: ModelOrigin) -> dict[str, JSON]:
    # The run's record first: older models don't have it in their own.
    transfer = (None if origin.report is None else origin.report.transfer) or transfer_of(record)
    return {"ancestor": record.ancestor, **({} if transfer is None else {**asdict(transfer), "said": str(transfer)})}


def transfer_of(record: ModelRecord) -> TransferReport | None:
    """Return what a search's evaluation inherited, from its record; None for other and for older models."""
    match record.extra:
        case {"report": {"transfer": value}}:
            with contextlib.suppress(CorruptRecord):
                return TransferReport.from_json(value)
    return None


def layers_of(record: ModelRecord, graph: ArchitectureGraph) -> list[dict[str, JSON]]:
    """Return one row per layer: its type, the model that trained it last, and its number of steps.

    Layers are ``inherited`` if they have weights that are all unchanged from an ancestor's, frozen or not.
    """
    lines: list[dict[str, JSON]] = []
    for number, layer in enumerate(graph.layers):
        entries = [record.owner_map.entries[tensor] for tensor in graph.tensor_numbers(number)]
        owners = list(dict.fromkeys(entry.owner for entry in entries))
        lines.append(
            {
                "name": layer.name,
                "kind": kind_of(layer.config),
                "parameters": sum(math.prod(spec.shape) for spec in layer.tensors),
                "bytes": sum(spec.nbytes for spec in layer.tensors),
                "trained_in": owners,
                "steps": max((entry.steps for entry in entries), default=0),
                "inherited": bool(owners) and record.model_id not in owners,
            }
        )
    return lines


def kind_of(config: JSON) -> str:
    """Return the class name of a layer from its recorded configuration."""
    return str(config.get("class_name", "?")) if isinstance(config, dict) else "?"


def _run(origins: Origins | None, origin: ModelOrigin) -> JSON:
    if origins is None:
        return None
    info = origins.info
    strategy = info.identity.get("strategy")
    return {
        "id": info.id,
        "name": info.name,
        "folder": str(origins.folder),
        "begun": said_time(info.created),
        "number": None if origin.request is None else origin.request.number,
        "strategy": strategy.get("name") if isinstance(strategy, Mapping) else None,
        "versions": info.about.get("versions"),
    }


def _unknown(facts: Mapping[str, Any], origins: Origins | None, origin: ModelOrigin, data: JSON) -> list[str]:
    """Return sentences about facts that the card lacks, with the reasons."""
    missing = []
    if origins is None:
        missing.append(
            "run, space, problem and settings of training: the repository was named, not the folder of the run that "
            "the model came of"
        )
    elif origin.request is None:
        what = "choices and settings of training" if facts["training"]["hyperparameters"] is None else "choices"
        missing.append(f"{what}: the record of {origins.info.name} has no evaluation of that name")
    elif facts["space"] is None or facts["space"]["chosen"] is None:
        missing.append("the options chosen: the run's record doesn't have them")
    if facts["quality"]["value"] is None:
        missing.append("quality: none was put with the model, or its scope has no objective")
    if data is None:
        missing.append("the data's shapes and digest: a run's record has only its problem's name and digest")
    return missing


def said_time(moment: float | None) -> str | None:
    """Return a time in UTC as ISO 8601, to the second; None if it is not known.

    Examples
    --------
    >>> said_time(0.0)
    '1970-01-01T00:00:00Z'
    """
    # NaN and infinity fail the comparison; times after the year 9999 raise below.
    if moment is None or not 0 <= moment < 2**40:
        return None
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None
