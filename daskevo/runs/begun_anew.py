"""A run that came to nothing may be begun anew by the problem, mended: nothing is lost by it but what failed.

Decided by what the run was and what it has; carried out in one transaction, and then in its description. Killed in
between it is a run without requests, which may be begun anew again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from daskevo.errors import RunFolderUnusable
from daskevo.runs.mismatch import differences
from daskevo.runs.schema import FILE
from daskevo.runs.view import RunView
from daskevo.search import Report, Request
from daskevo.types import JSON, ModelId

_OF_THE_PROBLEM = ("problem.content", "problem.settings", "problem.made", "policy.passed")


def is_mended(found: Mapping[str, JSON], asked: Mapping[str, JSON]) -> bool:
    """Tell whether a run is asked for with the problem of the folder's one by name, and not as it was then.

    Parameters
    ----------
    found, asked:
        Identities of the run in the folder and of the one that is asked for.
    """
    differing = differences(found, asked)
    return "problem.name" not in differing and any(part.startswith(_OF_THE_PROBLEM) for part in differing)


def came_to_nothing(requests: Iterable[Request], reports: Iterable[Report], was_put: Callable[[ModelId], bool]) -> bool:
    """Tell whether a run has no model: none finished, and none was put whose report was lost.

    Parameters
    ----------
    was_put:
        Asks the repository for the model of a request that has no report.
    """
    told = set()
    for report in reports:
        if report.status == "finished":
            return False
        told.add(report.number)
    return not any(was_put(request.model_id) for request in requests if request.number not in told)


def begins_anew(
    folder: Path, found: Mapping[str, JSON], asked: Mapping[str, JSON], was_put: Callable[[ModelId], bool]
) -> bool:
    """Tell whether what is asked for may take the place of the run in a folder; raises as `RunView`."""
    if not is_mended(found, asked):
        return False
    with RunView(folder) as view:
        return came_to_nothing(view.requests(), view.reports(), was_put)


def empty(folder: Path) -> str:
    """Take all rows out of a record, in one transaction; return what they came to, in words.

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
        connection = sqlite3.connect(path, timeout=30)
        try:
            with connection:
                for table in ("reports", "requests", "units", "events", "state", "labels", "sessions"):
                    connection.execute(f"DELETE FROM {table}")
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise RunFolderUnusable(
            f"the run's record {path} can't be written: {error}; nothing recorded before is lost", path=str(folder)
        ) from error
    return f"begun anew with the problem as it is now: evaluations that had failed before: {len(failed)}{first}"
