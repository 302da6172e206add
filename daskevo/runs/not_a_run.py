"""Errors for folders that can't be read as a run: what the folder is instead, and what to do."""

from __future__ import annotations

from pathlib import Path

from daskevo.errors import RunFolderUnusable, RunMismatch
from daskevo.runs.run_lock import holder
from daskevo.runs.schema import FILE, VERSION

RESTORE = "restore it from a copy, or use another folder for a new run"
"""Advice for a record that is missing or damaged."""

SALVAGE = "restore it from a copy, save what can be read of it with daskevo salvage RUN TO, or use another folder"
"""Advice for a record that exists but is damaged."""

DESCRIPTION = "run.json"
REPOSITORY = "repository.json"
"""The file that makes a folder the root of a repository."""
SHOWN = 5
"""Runs below the folder that are named, at most."""


def no_run(folder: Path) -> RunFolderUnusable:
    """Return the error for a folder without a run: what the folder is, and which one to name."""
    return RunFolderUnusable(_say(folder), path=str(folder))


def without_description(folder: Path) -> RunFolderUnusable:
    """Return the error for a record without `run.json`."""
    return RunFolderUnusable(
        f"{folder / DESCRIPTION} is missing: {folder / FILE} is the record of a run; {RESTORE}", path=str(folder)
    )


def other_version(path: Path, version: int) -> RunFolderUnusable:
    """Return the error for a record of a version that this daskevo can't read or write."""
    if version == 0:
        return RunFolderUnusable(f"{path} is empty, or not what daskevo wrote: {RESTORE}", path=str(path))
    later = "a later daskevo wrote it" if version > VERSION else "no daskevo that is known here wrote it"
    return RunFolderUnusable(
        f"{path} is of version {version}, this daskevo reads and writes {VERSION}: {later}; use the daskevo that wrote "
        "it, or another folder for a new run",
        path=str(path),
    )


def copy_of(folder: Path, home: Path) -> RunMismatch:
    """Return the error for a copied run that would continue in the repository of its original."""
    return RunMismatch(
        f"{folder} is a copy of the run in {home}, which has the repository: what is done by the copy's name would be "
        f"done to the models of {home}. Name that folder, or copy it as a whole, with its repository ({REPOSITORY} and "
        "all)",
        path=str(folder),
        parts=["repository"],
    )


def _say(folder: Path) -> str:
    if not folder.exists():
        return f"there is no folder {folder}: name the folder of a run, as --run or run= did when it was begun"
    if not folder.is_dir():
        return f"{folder} is a file: name the folder of a run"
    if (folder / FILE).exists():
        return without_description(folder).message
    start = f"{folder} holds no run: it"
    if (folder / REPOSITORY).exists():
        return f"{start} is a repository. Its models: daskevo models ls {folder}. A run has a folder of its own"
    below = [entry for entry in sorted(folder.iterdir()) if (entry / DESCRIPTION).exists()]
    if below:
        shown = ", ".join(map(str, below[:SHOWN])) + (", …" if len(below) > SHOWN else "")
        return f"{start} has {len(below)} below it; name one: {shown}"
    if (process := holder(folder)) is not None:
        return f"{start} has nothing recorded yet: {process} is beginning one there; ask again in a while"
    found = f"has no {DESCRIPTION}" if any(folder.iterdir()) else "is empty"
    return f"{start} {found}. Name the folder of a run, as --run or run= did when it was begun"
