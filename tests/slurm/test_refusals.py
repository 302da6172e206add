"""What a batch system refuses or doesn't start is said plainly, within a time limit, with the next step."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.deploy.batch.first_workers import wait_for_workers
from daskevo.errors import BatchSystemError, ClusterError, RootUnusable, VersionMismatch

pytestmark = [pytest.mark.usefixtures("configured"), pytest.mark.long]


def refused(**options: Any) -> str:
    """Return what is said of jobs that don't come."""
    waiting = {name: options.pop(name) for name in ("start_timeout_s", "arrive_timeout_s") if name in options}
    with daskevo.batch_cluster("slurm", jobs=1, **options) as cluster:
        with pytest.raises(BatchSystemError) as caught:
            wait_for_workers(cluster, **waiting)
        return str(caught.value)


def test_no_batch_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "there is no 'sbatch' here" in refused()


def test_a_queue_that_is_not_there() -> None:
    words = refused(queue="nowhere")
    assert "sbatch took no job" in words
    assert "invalid partition specified: nowhere" in words


def test_a_queue_that_takes_nothing() -> None:
    assert "sbatch took no job" in refused(queue="closed")


def test_a_job_that_never_starts() -> None:
    words = refused(job_extra_directives=["--begin=now+1hour"], start_timeout_s=8)
    assert "no trainer came within 8 s" in words
    assert "PENDING (BeginTime)" in words
    assert "daskevo.batch.start-timeout" in words


def test_a_job_whose_workers_never_come() -> None:
    words = refused(job_script_prologue=["echo a long way to go; sleep 600"], arrive_timeout_s=6)
    assert "has run for 6 s and no trainer of it has come" in words
    assert "interface in dask-jobqueue's YAML" in words
    assert "a long way to go" in words


def test_a_job_that_ends_at_once() -> None:
    words = refused(job_script_prologue=["echo no such module >&2; exit 3"])
    # Whoever looks first says it: the wait for a trainer, or the watch over jobs, which gives up after three.
    assert re.search(r"ended before a (trainer|worker) of it came: FAILED \(NonZeroExitCode\), exit code 3:0", words)
    assert "no such module" in words


def test_gpus_that_a_node_does_not_have() -> None:
    words = refused(gpus_per_trainer=2)
    assert "need 2, and this node has 0" in words


def told_at_opening(root: Path, error: type[ClusterError], **options: Any) -> str:
    """Return what is said of workers that came and can't serve a repository in that folder."""
    with daskevo.batch_cluster("slurm", jobs=1, **options) as cluster, cluster.get_client() as client:
        wait_for_workers(cluster)
        with pytest.raises(error) as caught:
            daskevo.open(root, "test", client=client, objective="max score", shards=8)
        return str(caught.value)


def test_workers_of_another_version(tmp_path: Path) -> None:
    preload = tmp_path / "older.py"
    preload.write_text("from daskevo import extras\nextras.version = lambda name: '0.0.1'\n")
    words = told_at_opening(tmp_path / "root", VersionMismatch, worker_extra_args=["--preload", str(preload)])
    # The trainer or the provider, whichever Dask lists first; only a trainer's words have Keras and TensorFlow.
    assert re.search(r"runs daskevo 0\.0\.1, (keras 0\.0\.1, )?python 3", words)
    assert "install the same versions everywhere" in words


def test_workers_that_do_not_see_the_root(tmp_path: Path) -> None:
    """As on nodes where the folder is another disk: a wrapper of Python hides it from what the job starts."""
    shared = tmp_path / "shared"
    shared.mkdir()
    blind = tmp_path / "python"
    blind.write_text(
        f'#!/bin/sh\nexec unshare --mount sh -c \'mount -t tmpfs none {shared} && exec "$@"\' - {sys.executable} "$@"\n'
    )
    blind.chmod(0o755)
    words = told_at_opening(shared / "root", RootUnusable, python=str(blind))
    assert f"does not see the root: can't open a repository in {shared / 'root'}" in words
