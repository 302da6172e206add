"""A run's record as table rows, for pandas, or for CSV without pandas."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from daskevo.errors import InvalidInput, RepositoryError
from daskevo.runs import Event, SessionRow, UnitRow
from daskevo.search import Report, Request, TransferReport
from daskevo.types import JSON, ModelId
from daskevo_workflows.reports.run_reader import RunningTime
from daskevo_workflows.reports.series import RunSeries

if TYPE_CHECKING:
    import pandas as pd

    from daskevo.repository import Repository

Row = dict[str, Any]

KINDS = ("evaluations", "units", "models", "events")
"""Kinds of tables."""


class Tabled(Protocol):
    """What tables are made from: a :class:`~daskevo_workflows.results.result.Result` has it."""

    requests: Sequence[Request]
    reports: Sequence[Report]
    units: Sequence[UnitRow]
    events: Sequence[Event]
    sessions: Sequence[SessionRow]
    series: RunSeries

    @property
    def repository(self) -> Repository: ...

    def choices(self, request: Request) -> Mapping[str, JSON]: ...


def rows_of(result: Tabled, of: str = "evaluations") -> list[Row]:
    """Return a row per evaluation, unit, model or event, as dicts.

    Raises
    ------
    InvalidInput
        If there is no such frame.
    """
    makers: dict[str, Callable[[Tabled], Iterator[Row]]] = {
        "evaluations": _evaluations,
        "units": _units,
        "models": _models,
        "events": _events,
    }
    if of not in makers:
        raise InvalidInput(f"there is no frame of {of!r:.40}; there are {', '.join(KINDS)}")
    return list(makers[of](result))


def as_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a pandas DataFrame; raises InvalidInput without pandas."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InvalidInput(
            "a frame needs pandas, which is not installed: pip install pandas. Without it, `daskevo frame RUN` writes "
            "the same as CSV"
        ) from error
    return pd.DataFrame(list(rows))


def write_csv(rows: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    r"""Write rows as CSV, with a column for each name in any row, in order of appearance.

    None is an empty field, booleans are ``True`` and ``False``, lists and dicts are JSON, so that pandas reads them
    back. Control characters are written as ``\x1b``.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    # The module's own line end is CRLF, which awk and column don't expect.
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, names))
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)


_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, and characters that can't be encoded."""


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value)
    if isinstance(value, str):
        return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), value)
    return value


def _evaluations(result: Tabled) -> Iterator[Row]:
    reports = {report.number: report for report in result.reports}
    moments = {e.number: (e.started_s, e.ended_s) for e in result.series.evaluations}
    for request in result.requests:
        report = reports.get(request.number)
        row: Row = {
            "number": request.number,
            "model_id": request.model_id,
            "status": "pending" if report is None else report.status,
            "parent": request.parent,
            "transfer": request.transfer,
        }
        if report is not None:
            # On the run's own clock: pauses between sessions don't count.
            started_s, ended_s = moments[request.number]
            row |= {
                "quality": report.quality,
                "step": report.step,
                "ancestor": report.ancestor,
                "prefix": report.prefix,
                "vertices": report.vertices,
                "frozen_share": report.frozen_share,
                **_transfer_columns(report.transfer),
                "parameters": report.parameters,
                "own_bytes": report.own_bytes,
                "full_bytes": report.full_bytes,
                "worker": report.worker,
                "started": report.started,
                "ended": report.ended,
                "started_s": started_s,
                "ended_s": ended_s,
                "duplicate_of": report.duplicate_of,
                "failure": None if report.failure is None else report.failure.kind,
                "reason": None if report.failure is None else report.failure.message,
                **_seconds(report),
                **{f"metric:{name}": value for name, value in report.metrics.items()},
            }
        yield row | {f"choice:{name}": option for name, option in result.choices(request).items()}


def _transfer_columns(transfer: TransferReport | None) -> Row:
    if transfer is None:
        return {}
    return {
        "inherited_layers": transfer.inherited,
        "frozen_layers": transfer.frozen,
        "layers": transfer.layers,
        "inherited_bytes": transfer.nbytes,
        "no_more": transfer.reason,
        "no_more_words": transfer.words,
    }


def _seconds(report: Report) -> Row:
    return {f"{phase}_s": seconds for phase, seconds in report.seconds.items()}


def _units(result: Tabled) -> Iterator[Row]:
    reports = {report.number: report for report in result.reports}
    clock = RunningTime(result.sessions)
    for unit in result.units:
        report = reports.get(unit.numbers[0]) if unit.kind == "evaluate" and unit.numbers else None
        yield {
            "key": unit.key,
            "kind": unit.kind,
            "number": unit.numbers[0] if len(unit.numbers) == 1 else None,
            "requests": len(unit.numbers),
            "model_id": None if report is None else report.model_id,
            "worker": unit.worker,
            "state": unit.state,
            "submitted_s": clock.at(unit.submitted),
            "started_s": None if unit.started is None else clock.at(unit.started),
            "ended_s": None if unit.ended is None else clock.at(unit.ended),
            "waited_s": _between(unit.submitted, unit.started),
            "took_s": _between(unit.started, unit.ended),
            "estimated_s": unit.estimated_s,
            **({} if report is None else _seconds(report)),
        }


def _between(begin: float | None, end: float | None) -> float | None:
    # The clocks of two processes may differ: a negative duration means zero.
    return None if begin is None or end is None else max(0.0, end - begin)


def _models(result: Tabled) -> Iterator[Row]:
    # One listing for all models, rather than a question for each.
    states = _states(result)
    requests = {request.number: request for request in result.requests}
    finished = [report for report in result.reports if report.status == "finished"]
    heirs: dict[str | None, int] = {}
    for report in finished:
        heirs[report.ancestor] = heirs.get(report.ancestor, 0) + 1
    for report in finished:
        chain = result.series.lineage(report.model_id)
        labels = None if states is None else states.get(report.model_id)
        yield {
            "model_id": report.model_id,
            "number": report.number,
            "quality": report.quality,
            "step": report.step,
            "parameters": report.parameters,
            "parent": requests[report.number].parent,
            "ancestor": report.ancestor,
            "founder": chain[-1],
            "depth": len(chain) - 1,
            "heirs": heirs.get(report.model_id, 0),
            "lineage": list(chain[1:]),
            "own_bytes": report.own_bytes,
            "full_bytes": report.full_bytes,
            "inherited_bytes": None if report.transfer is None else report.transfer.nbytes,
            "state": None if states is None else "gone" if labels is None else "published",
            "labels": list(labels or ()),
        }


def _states(result: Tabled) -> dict[ModelId, tuple[str, ...]] | None:
    """Return the published models with their labels; None if there is no readable repository."""
    try:
        found = result.repository.models()
    except (RepositoryError, OSError):
        # In memory, moved or damaged: the columns from the run's record are still worth a table.
        return None
    return {summary.model_id: tuple(sorted(summary.labels)) for summary in found}


def _events(result: Tabled) -> Iterator[Row]:
    clock = RunningTime(result.sessions)
    for event in result.events:
        facts = event.facts if isinstance(event.facts, dict) else {}
        yield {
            "time": event.time,
            "at_s": clock.at(event.time),
            "kind": event.kind,
            "number": event.number,
            "message": event.message,
            **{f"fact:{name}": value for name, value in facts.items()},
        }
