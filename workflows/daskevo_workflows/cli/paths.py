"""Where things lie: the repository in a run's folder, the run's folder of a command typed without one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daskevo_workflows.results.run_root import (
    DESCRIPTION,
    REPOSITORY,
    borrowed_from,
    recorded_root,
    repository_id,
    say_borrowed,
)

if TYPE_CHECKING:
    from daskevo_workflows.evaluation.transfer import Transfer

RUN = "run.json"
"""The file that makes a folder the folder of a run."""

OWN = (RUN, "run.sqlite", "run.sqlite-journal", "run.lock", REPOSITORY)
"""What a new run makes in its folder before its first evaluation ends."""

SHOWN = 8
"""Repositories that are named where one was asked for, at most."""


def repository_root(place: Path, *, to_change: bool = False) -> Path:
    """Return the root of a repository, given itself or the folder of a run that belongs to it.

    A copy of a run that has none of its own is read as the original's, and stderr says so.

    Parameters
    ----------
    to_change:
        Whether something will be changed there: not by a copy's name.

    Raises
    ------
    RunMismatch
        If it would be changed, and is that of the run which this one is a copy of.
    RootUnusable
        If there is none, naming those that lie in the folder.
    RunFolderUnusable
        If the run's description can't be read.
    """
    from daskevo.errors import RootUnusable
    from daskevo.runs.not_a_run import copy_of

    try:
        root = _root_at(place)
    except OSError as error:
        raise RootUnusable(
            f"{place} can't be looked into: {error.strerror or error}; name a folder that you may read",
            path=str(place),
        ) from error
    if root is None:
        raise RootUnusable(f"{_say_no_root(place)}: name the root of a repository, or a run's folder", path=str(place))
    if not (root / DESCRIPTION).exists():
        raise RootUnusable(
            f"the run in {place} belongs to the repository {root}, which is not there: name the folder where it is now",
            path=str(root),
        )
    if root != place and (home := borrowed_from(place)) is not None:
        if to_change:
            raise copy_of(place, home)
        click.echo(say_borrowed(place, home), err=True)
    return root


def _root_at(place: Path) -> Path | None:
    if (place / DESCRIPTION).exists():
        return place
    recorded = recorded_root(place) if place.is_dir() else None
    if recorded is not None:
        return recorded
    inside = place / REPOSITORY
    return inside if (inside / DESCRIPTION).exists() else None


def _say_no_root(place: Path) -> str:
    """Say what a place is that is no repository and no run with one."""
    if not place.exists():
        return f"there is no folder {place}"
    if not place.is_dir():
        return f"{place} is a file, not a folder"
    below = [entry for entry in sorted(place.iterdir()) if any((entry / name).exists() for name in (DESCRIPTION, RUN))]
    if below:
        shown = ", ".join(str(entry) for entry in below[:SHOWN]) + (", ..." if len(below) > SHOWN else "")
        return f"{place} is no repository, but a folder of {len(below)}: {shown}"
    found = "is empty" if not any(place.iterdir()) else f"has no {DESCRIPTION}, no {RUN} and no {REPOSITORY} in it"
    return f"{place} is no repository and no run: it {found}"


def root_for_run(folder: Path, named: Path | None) -> Path:
    """Return the root that a run goes on with, or begins with: the recorded one, the named one, the one inside.

    Parameters
    ----------
    named:
        By the user; must be the run's own, which may have moved.

    Raises
    ------
    RunMismatch
        If the run belongs to another repository than the one that was named, or is a copy of the one that has it.
    RootUnusable
        If the run's repository is no longer where it was.
    RunFolderUnusable
        If the run's description can't be read.
    """
    from daskevo.errors import RootUnusable
    from daskevo.runs.folder import check_repository, read_info
    from daskevo.runs.not_a_run import copy_of

    info, recorded = read_info(folder), recorded_root(folder)
    if info is not None and named is not None:
        asked = {"repository": str(named.absolute()), "repository_id": repository_id(named)}
        check_repository(folder, info.about, asked)
    if named is not None or recorded is None:
        return named or folder / REPOSITORY
    if not (recorded / DESCRIPTION).exists():
        raise RootUnusable(
            f"the run in {folder} belongs to the repository {recorded}, which is not there: say where it is now with "
            "--repository, or use another folder for a new run",
            path=str(recorded),
        )
    if (home := borrowed_from(folder)) is not None:
        raise copy_of(folder, home)
    return recorded


@contextlib.contextmanager
def run_folder(folder: Path) -> Iterator[None]:
    """Make a run's folder, have it alone from here on, and take it away again if nothing has come into it.

    So is a run that this command has begun, if its problem or objective turns out to be one that no candidate can
    finish: it would only be in the way of the same command, mended. And so is what an interrupted command has made
    before its run had begun.

    Raises
    ------
    RunFolderUnusable
        If it can't be written, is half a run, or another process carries it on.
    InvalidProblem
        As it came, with what became of the run.
    """
    from daskevo.errors import InvalidProblem
    from daskevo.runs.folder import prepare_folder
    from daskevo.runs.record import check_record
    from daskevo.runs.run_lock import locked_early

    check_record(folder)
    new = [name for name in OWN if not (folder / name).exists()]
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        prepare_folder(folder)
        with locked_early(folder):  # before a cluster is started, and the repository asked for
            yield
    except KeyboardInterrupt:
        if not (folder / RUN).exists():
            for name in new:
                _remove(folder / name)
        raise
    except InvalidProblem as error:
        if RUN not in new or not (folder / RUN).exists() or _has_finished(folder):
            raise
        for name in new:
            _remove(folder / name)
        raise InvalidProblem(
            f"{error.facts.get('reason', error.message)}\nNo candidate would fare better. Nothing was trained to its "
            f"end, and the new run in {folder} was taken away again: mend this, and the same folder can be used",
            **error.facts,
        ) from error
    finally:
        with contextlib.suppress(OSError):  # the first that something lies in
            for path in made:
                path.rmdir()


def _has_finished(folder: Path) -> bool:
    from daskevo.runs import RunView

    with RunView(folder) as view:
        return any(report.status == "finished" for report in view.reports())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def default_run_folder(problem: str, seed: int, transfer: Transfer) -> Path:
    """Return the folder of a run that was not named: the same command finds it again, another one does not.

    Examples
    --------
    >>> from daskevo_workflows.evaluation.transfer import Transfer
    >>> default_run_folder("examples/my_problem.py", 1, Transfer("none")).as_posix()
    'runs/my_problem-seed1-no-transfer'
    """
    name = problem_word(problem)
    parts = transfer.changed() if transfer.is_any else {"no": "transfer"}
    arm = "".join(f"-{part}-{value}" for part, value in parts.items()).replace(":", "-").replace("_", "-")
    return Path("runs") / f"{name}-seed{seed}{arm}"


def problem_word(problem: str) -> str:
    """Return what a folder is named by for a problem as it was typed.

    Examples
    --------
    >>> problem_word("examples/my_problem.py"), problem_word("examples/my_problem.py:wide"), problem_word("flights")
    ('my_problem', 'my_problem-wide', 'flights')
    """
    return os.path.basename(problem).removesuffix(".py").replace(".py:", "-") or "run"
