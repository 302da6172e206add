"""View runs without a cluster: running in another process, stopped or finished."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import daskevo
from daskevo.errors import InvalidInput, RootUnusable
from daskevo.runs import RunInfo
from daskevo_workflows.execution.event_kinds import STOPPED
from daskevo_workflows.reports.arms import arm_names
from daskevo_workflows.reports.run_names import run_names
from daskevo_workflows.reports.study_reader import is_study
from daskevo_workflows.reports.unique_runs import each_once
from daskevo_workflows.results.frames import Row, as_frame, rows_of
from daskevo_workflows.results.result import Result
from daskevo_workflows.results.run_root import DESCRIPTION, borrowed_from, recorded_root, say_borrowed

if TYPE_CHECKING:
    import pandas as pd

    from daskevo.repository import Repository

logger = logging.getLogger(__name__)


def look(run: str | Path, *, repository: str | Path | Repository | None = None) -> Result:
    """View the run in a folder and its repository without a cluster; nothing is changed.

    The run may be finished, stopped, killed, or running in another process. The result is a consistent snapshot; call
    again for a later one.

    Parameters
    ----------
    run:
        The run's folder.
    repository:
        Root of the repository, if it has been moved. It is opened only when a model is asked for, so a run can be
        viewed even if its repository is gone or was in memory. Or the repository opened on a cluster, for functions
        that train, such as `nas.refine`.

    Returns
    -------
    Result
        As from `nas.search`: `best()`, `front()`, `frame()`, `figures()`, `report()`, `summary()`, and the models with
        their lineage. `stop` is the reason for the end of the last process; ``("", "")`` if one is running or was
        killed.

    Raises
    ------
    RunFolderUnusable
        If the folder holds no run, an incomplete one, or one of another version; the message says what it is.
    InvalidInput
        If it is a study of hyper-parameters.

    Examples
    --------
    >>> result = look("runs/mine")  # doctest: +SKIP
    >>> result.best(3), result.frame()  # doctest: +SKIP
    """
    folder = Path(run)
    if is_study(folder):
        raise InvalidInput(
            f"{folder} holds a study of hyper-parameters, not a search: daskevo status {folder} and daskevo report "
            f"{folder} say what it has found",
            path=str(folder),
        )
    if repository is None or isinstance(repository, (str, Path)):
        named = None if repository is None else Path(repository)
        # Opened when a model is asked for; by then `result` exists, and knows the run's scope.
        result = Result(folder, lambda: _opened(folder, result.info, named), root=named)
    else:
        result = Result(folder, repository)
    result.stop = _why_stopped(result)
    return result


def frames(runs: Sequence[str | Path], of: str = "evaluations") -> pd.DataFrame:
    """Return one pandas DataFrame of several runs.

    Parameters
    ----------
    runs:
        Folders of runs, finished or not, each once; no cluster is needed.
    of:
        As in `Result.frame`.

    Returns
    -------
    pandas.DataFrame
        As from `Result.frame`, with the additional first columns ``run`` (the folder's name, with the run's id if it is
        not unique), ``arm`` (the run's arm in figures of the same runs, such as ``no transfer``) and ``seed``.

    Raises
    ------
    RunFolderUnusable
        If a folder holds no run.
    InvalidInput
        If pandas is not installed, or there is no such frame.
    """
    return as_frame(rows_of_runs(runs, of))


def rows_of_runs(runs: Sequence[str | Path], of: str = "evaluations") -> list[Row]:
    """Return the rows of :func:`frames`, as dicts."""
    found = [look(folder) for folder in each_once([Path(run) for run in runs])]
    series = [result.series for result in found]
    return [
        {"run": name, "arm": arm, "seed": result.info.identity.get("seed"), **row}
        for name, arm, result in zip(run_names(series), arm_names(series), found, strict=True)
        for row in rows_of(result, of)
    ]


def _why_stopped(result: Result) -> tuple[str, str]:
    word = result.sessions[-1].ended if result.sessions else None
    if word is None:
        return "", ""
    return word, next((event.message for event in reversed(result.events) if event.kind == STOPPED), word)


def _opened(folder: Path, info: RunInfo, named: Path | None) -> Repository:
    root = recorded_root(folder) if named is None else named
    if root is None:
        raise RootUnusable(
            f"the run in {folder} had its repository in memory, which went with its cluster: its record is there, its "
            "models are not",
            path=str(folder),
        )
    if not (root / DESCRIPTION).exists():
        raise RootUnusable(
            f"the repository of the run in {folder} is not in {root}: say where it is now, look(run, repository=...)",
            path=str(root),
        )
    # Whoever names the repository knows whose it is.
    if named is None and (home := borrowed_from(folder)) is not None:
        logger.warning("%s", say_borrowed(folder, home))
    opened: Repository = daskevo.open(root, str(info.about.get("scope") or "default"))
    return opened
