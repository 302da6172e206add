"""Build an evaluation's report, and rebuild one from the record of a model whose report was lost."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from daskevo.search import Report, Request, TransferReport
from daskevo.types import JSON, Objective
from daskevo_workflows.evaluation.offered_metrics import when_stored
from daskevo_workflows.evaluation.trainer_task import worker_name
from daskevo_workflows.evaluation.training import Stopwatch

if TYPE_CHECKING:
    from daskevo.repository import InheritanceReport


class Draft(Stopwatch):
    """Collects the fields and timings of a report during an evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.started = time.time()
        self.fields: dict[str, Any] = {}

    def so_far(self) -> dict[str, Any]:
        """Return the timings and the worker, up to now."""
        return {
            "seconds": {name: round(seconds, 6) for name, seconds in self.seconds.items()},
            "worker": worker_name(),
            "started": self.started,
            "ended": time.time(),
        }

    def kept(self) -> JSON:
        """Return the fields that are stored with the model, in case the report is lost."""
        return {**self.so_far(), **self.inherited()}

    def inherited(self) -> dict[str, JSON]:
        """Return the fields that say what was inherited."""
        names = ("ancestor", "prefix", "vertices", "frozen_share", "parameters", "full_bytes")
        return {**{name: self.fields[name] for name in names}, "transfer": asdict(self.fields["transfer"])}

    def report(self, request: Request, found: Mapping[str, Any]) -> Report:
        """Return the report; `found` overrides fields collected before."""
        identity = {"number": request.number, "model_id": request.model_id}
        return Report(**{**identity, **self.so_far(), **self.fields, **found})


def transfer_report(found: InheritanceReport) -> TransferReport:
    """Return the report's summary of an inheritance: counts and reasons instead of every layer's name."""
    words = found.words
    if found.ancestor is not None and found.tried:
        name, why = next(iter(found.tried.items()))
        words += f"; a better match was passed over, {name}: {why}"
    return TransferReport(
        found.reason,
        words,
        inherited=len(found.matched),
        layers=len(found.matched) + len(found.unmatched),
        frozen=len(found.frozen),
        nbytes=found.inherited_bytes,
        tried=len(found.tried),
        silent=len(found.silent),
    )


def other_candidate(record: Any, request: Request) -> str | None:
    """Return why a stored model is not the one requested; None if it is, or if that can't be told.

    A retired model's record no longer has its candidate; its name alone says that it was this run's.
    """
    if record.graph is None:
        return None
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    found, asked = extra.get("candidate"), request.candidate.to_json()
    if found == asked:
        return None
    return (
        f"{request.model_id} is in the repository, and is another model: its candidate is {found!r:.200}, asked for "
        f"was {asked!r:.200}; was the run's folder restored from an older copy? Use another folder for a new run"
    )


def report_of_record(record: Any, number: int, objectives: Sequence[Objective]) -> Report:
    """Return the report of a model that was put but whose report was lost.

    The seconds end at the put; all else is in the model's record.
    """
    return Report(**{"number": number, "model_id": record.model_id, **fields_of_record(record, objectives)})


def fields_of_record(record: Any, objectives: Sequence[Objective]) -> dict[str, Any]:
    """Return the report fields of a stored model."""
    extra = record.extra if isinstance(record.extra, Mapping) else {}
    kept = dict(extra.get("report") or {})
    if "transfer" in kept:
        kept["transfer"] = TransferReport.from_json(kept["transfer"])
    return {
        **kept,
        "status": "finished",
        "quality": record.quality,
        "metrics": when_stored(objectives, record.metrics, own_bytes(record)),
        "step": record.step,
        "own_bytes": own_bytes(record),
    }


def own_bytes(record: Any) -> int:
    """Return the bytes of the tensors that the model stored itself."""
    return sum(spec.nbytes for spec in record.own.values())
