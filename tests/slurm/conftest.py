"""A Slurm of its own for each file of tests: in-process clusters of Dask's own tests, in other files, end all processes
that they find."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest

from tests.rights import not_allowed
from tests.slurm.command import BATCH
from tests.slurm.running import PROGRAMS, Slurm, running


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: Any) -> Iterator[Slurm]:
    """A Slurm with nothing in its queue."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        not_allowed(f"a Slurm of its own needs {', '.join(missing)}")
    if os.getuid() != 0:
        not_allowed("a Slurm of its own needs the rights of root")
    with running(Path(tmp_path_factory.mktemp("slurm"))) as found:
        yield found


@pytest.fixture
def configured(slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clusters of this process are made on that Slurm."""
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    options = {**BATCH, "local-directory": str(tmp_path / "scratch"), "log-directory": str(tmp_path / "logs")}
    with dask.config.set({"jobqueue.slurm": {**dask.config.get("jobqueue.slurm", {}), **options}}):
        yield
