"""Start a run without results afresh when its problem has been mended: only its failures are lost.

The record is emptied in one transaction; then `run.json` is replaced. A process killed in between leaves a run without
requests, which can be started afresh again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from daskevo.errors import RunFolderUnusable
from daskevo.runs.full_disk import needs_room
from daskevo.runs.mismatch import differences
from daskevo.runs.schema import FILE
from daskevo.runs.view import RunView
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId

_OF_THE_PROBLEM = ("problem.content", "problem.settings", "problem.made", "policy.passed")


def is_mended(found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> bool:
    """Tell whether the same problem, by name, was asked for with changed code, settings or callbacks.

    Parameters
    ----------
    found, asked:
        Identities of the run in the folder and of the one asked for.
    """
    differing = differences(found, asked)
    return "problem.name" not in differing and any(part.startswith(_OF_THE_PROBLEM) for part in differing)


def came_to_nothing(requests: Iterable[Request], reports: Iterable[Report], was_put: Callable[[ModelId], bool]) -> bool:
    """Tell whether a run has no model: nothing finished, and no model was put whose report was lost.

    Parameters
    ----------
    was_put:
        Asks the repository for the model of a request without a report.
    """
    told = set()
    for report in reports:
        if report.status == "finished":
            return False
        told.add(report.number)
    # A killed process may have put a model and not come to report it.
    return not any(was_put(request.model_id) for request in requests if request.number not in told)


def begins_anew(
    folder: Path, found: Mapping[str, JSON], asked: Mapping[str, JSON], was_put: Callable[[ModelId], bool]
) -> bool:
    """Tell whether the run asked for may replace the one in the folder; raises like `RunView`."""
    if not is_mended(found, asked):
        return False
    with RunView(folder) as view:
        return came_to_nothing(view.requests(), view.reports(), was_put)


def empty(folder: Path) -> str:
    """Delete all rows of a record in one transaction; return a sentence about the failures that were deleted.

    Raises
    ------
    RunFolderUnusable
        If it can't be written.
    """
    with RunView(folder) as view:
        failed = [report for report in view.reports() if report.status == "failed"]
    why = next((report.failure.message for report in failed if report.failure is not None), "")
    first = f", the first because {why[:1000]}" if why else ""
    path = folder / FILE
    try:
        # sqlite3's own `with` ends the transaction and leaves the connection open; `closing` closes it.
        with needs_room(folder), contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            for table in ("reports", "requests", "units", "events", "state", "labels", "sessions"):
                connection.execute(f"DELETE FROM {table}")
    except sqlite3.DatabaseError as error:
        raise RunFolderUnusable(
            f"the run's record {path} can't be written: {error}; nothing recorded before is lost", path=str(folder)
        ) from error
    return f"begun anew with the problem as it is now: evaluations that had failed before: {len(failed)}{first}"
