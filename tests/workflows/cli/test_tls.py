"""The command on a cluster with TLS, as Dask's configuration has it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed.security import Security

import daskevo
from tests.workflows.cli.test_nas import command

pytestmark = [pytest.mark.processes, pytest.mark.long]


def environment(folder: Path) -> dict[str, str]:
    """Write new certificates into a folder; return what names them in Dask's configuration."""
    made = Security.temporary()
    folder.mkdir()
    (folder / "ca.pem").write_text(made.tls_ca_file)
    (folder / "key.pem").write_text(made.tls_client_key)
    prefix = "DASK_DISTRIBUTED__COMM__"
    found = {f"{prefix}REQUIRE_ENCRYPTION": "True", f"{prefix}TLS__CA_FILE": str(folder / "ca.pem")}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        found[f"{prefix}TLS__{role}__KEY"] = str(folder / "key.pem")
        found[f"{prefix}TLS__{role}__CERT"] = str(folder / "ca.pem")
    return found


def nas(*words: Any, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
        env={**os.environ, **env},
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return environment(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def scheduler(certificates: dict[str, str]) -> Iterator[str]:
    """The address of a cluster with these certificates."""
    files = {
        f"tls_{role}_{part}": certificates[f"DASK_DISTRIBUTED__COMM__TLS__{role.upper()}__{part.upper()}"]
        for role in ("client", "scheduler", "worker")
        for part in ("key", "cert")
    }
    ca_file = certificates["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"]
    security = Security(require_encryption=True, tls_ca_file=ca_file, **files)
    with daskevo.local_cluster(trainers=1, dashboard_address=None, security=security) as cluster:
        yield cluster.scheduler_address


def test_a_search_with_the_cluster_s_certificates(
    scheduler: str, certificates: dict[str, str], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    done = nas(
        tiny(), "--evaluations", 4, "--run", tmp_path / "run", "--scheduler", scheduler, "--json", env=certificates
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["evaluations"] == 4
    assert daskevo.open(tmp_path / "run" / "repository", "tiny").verify().clean


def test_a_local_cluster_encrypts_if_dask_s_configuration_says_so(
    certificates: dict[str, str], tiny: Callable[..., Path], tmp_path: Path
) -> None:
    words = ["--evaluations", 2, "--workers", 1, "--run", tmp_path / "run"]
    done = nas(tiny(), *words, env=certificates)
    assert done.returncode == 0, done.stderr
    lease = json.loads((tmp_path / "run" / "repository" / "cluster.json").read_text())
    assert lease["address"].startswith("tls://")


def test_whoever_lacks_the_certificates_is_told_so(scheduler: str, tmp_path: Path) -> None:
    others = environment(tmp_path / "others")
    unencrypted = scheduler.replace("tls", "tcp")
    for address, env in ((unencrypted, {}), (unencrypted, others), (scheduler, {}), (scheduler, others)):
        done = nas("digits", "--scheduler", address, "--run", tmp_path / "run", env=env)
        assert done.returncode == 2
        assert done.stderr.startswith("Error: SchedulerUnreachable: "), done.stderr
        assert "distributed.comm.tls" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "run").exists()
