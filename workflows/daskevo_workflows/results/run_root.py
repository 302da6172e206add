"""Find the repository of a run, given only the run's folder."""

from __future__ import annotations

from pathlib import Path

from daskevo_plugins.formatting import plain

REPOSITORY = "repository"
"""Default name of the repository's root in a run's folder."""

DESCRIPTION = "repository.json"
"""File that marks a folder as the root of a repository."""


def recorded_root(folder: Path) -> Path | None:
    """Return the root of the repository of the run in a folder; None if there is no run, or it records none.

    If a run's folder was moved or copied together with its repository, the one inside is used.

    Raises
    ------
    RunFolderUnusable
        If the run's description can't be read.
    """
    from daskevo.runs.folder import read_info

    info = read_info(folder)
    root = None if info is None else info.about.get("repository")
    if info is None or not isinstance(root, str):
        return None
    # By id: a repository that merely lies there may be another run's.
    inside, name = folder / REPOSITORY, info.about.get("repository_id")
    return inside if name is not None and repository_id(inside) == name else Path(root)


def repository_id(root: Path) -> str | None:
    """Return the id of the repository at a root; None if there is none."""
    # Imported when needed: shell completion loads this module for its constants at each TAB.
    from daskevo.store.root import Root

    return Root.open(root).repository_id if (root / DESCRIPTION).exists() else None


def borrowed_from(folder: Path) -> Path | None:
    """If the run in `folder` is a copy without its own repository, return the folder of the original; else None.

    Raises
    ------
    RunFolderUnusable
        If the run's description can't be read.
    """
    from daskevo.runs.folder import copied_from, read_info

    info, root = read_info(folder), recorded_root(folder)
    return None if info is None or root is None else copied_from(folder, info, str(root))


def say_borrowed(folder: Path, home: Path) -> str:
    """Return a notice about the source of the models of a copied run without a repository of its own."""
    return plain(
        f"{folder} is a copy of the run in {home} without a repository of its own: the models are those of "
        f"{recorded_root(folder)}, as they are now",
        2000,
    )
