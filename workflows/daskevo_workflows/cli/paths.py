"""Find folders: the repository of a run, and the default folder of a run."""

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
"""File that marks a folder as the folder of a run."""

OWN = (RUN, "run.sqlite", "run.sqlite-journal", "run.lock", REPOSITORY, "problem", "problem.making")
"""Files that a new run creates in its folder before its first evaluation ends."""

SHOWN = 8
"""Repositories below a folder that are named in an error, at most."""


def repository_root(place: Path, *, to_change: bool = False) -> Path:
    """Return the root of a repository, given the root itself or the folder of a run that uses it.

    For a copied run without a repository of its own this is the original's; stderr says so.

    Parameters
    ----------
    to_change:
        Whether the repository will be changed; refused for a copied run.

    Raises
    ------
    RunMismatch
        If it would be changed, but belongs to the run that this one is a copy of.
    RootUnusable
        If there is none; the message names those below the folder.
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
    # A repository that is named by its own root is nobody's copy.
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
    """Describe a path that is neither a repository nor a run with one."""
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
    """Return the repository root of a run: the recorded one, the given one, or the one in its folder.

    Parameters
    ----------
    named:
        Given by the user; must be the run's own, which may have been moved.

    Raises
    ------
    RunMismatch
        If the run belongs to another repository than the given one, or is a copy of the run that has it.
    RootUnusable
        If the run's repository is no longer where it was.
    RunFolderUnusable
        If the run's description can't be read.
    """
    from daskevo.errors import RootUnusable
    from daskevo.runs.folder import check_repository, read_info
    from daskevo.runs.not_a_run import copy_of

    info, recorded = read_info(folder), recorded_root(folder)
    # By id, not by path: the user may have moved it, but not exchanged it.
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
    """Create a run's folder and lock it in this block; remove it afterwards if nothing was put into it.

    A run begun by this command is also removed if no candidate can finish because of its problem or objective: it would
    only be in the way once that is mended. And so are files of a command that was interrupted before its run began.

    Raises
    ------
    RunFolderUnusable
        If it can't be written, is incomplete, or another process is running it.
    InvalidProblem
        The original error, with a sentence about the run.
    """
    from daskevo.errors import InvalidProblem
    from daskevo.runs.folder import prepare_folder
    from daskevo.runs.record import check_record
    from daskevo.runs.run_lock import locked_early

    # Before the folder is touched: an incomplete run in it is left as it is.
    check_record(folder)
    # What was there before this command is never removed, whatever its name.
    new = [name for name in OWN if not (folder / name).exists()]
    # Parents, too: `runs` itself may be new.
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        prepare_folder(folder)
        with locked_early(folder):  # before starting a cluster and opening the repository
            yield
    except KeyboardInterrupt:
        if not (folder / RUN).exists():
            for name in new:
                _remove(folder / name)
        raise
    except InvalidProblem as error:
        # A run that was there, or that has a finished evaluation, is worth keeping, whatever went wrong since.
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
        with contextlib.suppress(OSError):  # stops at the first folder that is not empty
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
    """Return the default folder of a run: the same for the same command, different for others.

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
    """Return the part of a folder's name that stands for a problem given on the command line.

    Examples
    --------
    >>> problem_word("examples/my_problem.py"), problem_word("examples/my_problem.py:wide"), problem_word("flights")
    ('my_problem', 'my_problem-wide', 'flights')
    """
    return os.path.basename(problem).removesuffix(".py").replace(".py:", "-") or "run"
