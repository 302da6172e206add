"""Where things lie: the repository in a run's folder, the run's folder of a command typed without one."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = "repository"
"""Name of the repository's root in a run's folder, where no other root is named."""


def repository_root(place: Path) -> Path:
    """Return the root of a repository, given itself or the folder of a run that has it inside."""
    inside = place / REPOSITORY
    return inside if not (place / "repository.json").exists() and (inside / "repository.json").exists() else place


def default_run_folder(problem: str, seed: int, *, transfer: bool, freeze: str) -> Path:
    """Return the folder of a run that was not named: the same command finds it again, another one does not.

    Examples
    --------
    >>> default_run_folder("examples/my_problem.py", 1, transfer=False, freeze="prefix").as_posix()
    'runs/my_problem-seed1-no-transfer'
    """
    name = os.path.basename(problem).removesuffix(".py") or "run"
    arm = "-no-transfer" if not transfer else "" if freeze == "prefix" else f"-freeze-{freeze}"
    return Path("runs") / f"{name}-seed{seed}{arm}"
