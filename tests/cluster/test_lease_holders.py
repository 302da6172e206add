"""Who has a repository open is asked at its address; who can't be asked from here is neither dead nor a crash."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Scheduler
from distributed.core import ConnectionPool
from distributed.security import Security

import daskevo
from daskevo.client.lease_holders import identity_at
from daskevo.errors import RepositoryTaken, SchedulerUnaskable
from daskevo.store.lease import CannotAsk, Holder, take_lease
from daskevo.store.root import Root
from daskevo.wire.transport import NoAnswer, PoolTransport
from tests.cluster.helpers import evo_cluster, open_here

NOWHERE = "127.0.0.1:9"


def holder_at(address: str, **more: str) -> Holder:
    return Holder("Scheduler-other", address, "SLURM_JOB_ID=17", **more)


def root_of(tmp_path: Path, address: str, **more: str) -> Path:
    """A root that a job opened last whose scheduler is at that address."""
    root = Root.create(tmp_path / "root", shards=2)
    take_lease(root, holder_at(address, **more), lambda holder: None)
    return root.path


@pytest.fixture(scope="module")
def certificates() -> Security:
    return Security.temporary()


def ask(holder: Holder, security: Security | None = None) -> str | None:
    async def asked() -> str | None:
        async with ConnectionPool(connection_args=(security or Security()).get_connection_args("client")) as pool:
            return await identity_at(holder, pool)

    return asyncio.run(asked())


async def ask_scheduler(listens: Security | None, asks: Security | None) -> tuple[str, str | None]:
    protocol = "tcp://" if listens is None else "tls://"
    options = {"host": "127.0.0.1", "port": 0, "dashboard_address": ":0", "protocol": protocol}
    async with (
        Scheduler(security=listens or Security(), **options) as scheduler,
        ConnectionPool(connection_args=(asks or Security()).get_connection_args("client")) as pool,
    ):
        return scheduler.id, await identity_at(holder_at(scheduler.address), pool)


def test_whoever_lacks_certificates_is_told_so_in_the_same_words_everywhere() -> None:
    address = f"tls://{NOWHERE}"

    async def call() -> None:
        async with ConnectionPool() as pool:
            await PoolTransport(pool, address, "memory").provider(address, "match", timeout_s=5)

    words = "it takes TLS connections only, and this process has no certificates for one"
    with pytest.raises(NoAnswer, match=words):
        asyncio.run(call())
    with pytest.raises(CannotAsk, match=words):
        ask(holder_at(address))


def test_a_scheduler_answers_whoever_has_its_certificates(certificates: Security) -> None:
    for security in (None, certificates):
        mine, answered = asyncio.run(ask_scheduler(security, security))
        assert answered == mine


@pytest.mark.parametrize("asks", ["nothing", "other certificates"])
def test_a_scheduler_with_tls_is_not_dead_to_whoever_lacks_its_certificates(certificates: Security, asks: str) -> None:
    with pytest.raises(CannotAsk, match="certificates"):
        asyncio.run(ask_scheduler(certificates, None if asks == "nothing" else Security.temporary()))


class Busy:
    """A pool whose first connections come to nothing: who is there stands still."""

    def __init__(self, pool: ConnectionPool) -> None:
        self.pool = pool
        self.tries = 0

    async def connect(self, address: str, timeout: float) -> Any:
        self.tries += 1
        if self.tries < 3:
            raise OSError(f"timed out trying to connect to {address}") from TimeoutError()
        return await self.pool.connect(address)

    def reuse(self, address: str, comm: Any) -> None:
        self.pool.reuse(address, comm)


@evo_cluster(trainers=0)
async def test_a_scheduler_that_stands_still_for_a_moment_is_asked_again(c: Any, s: Any, a: Any) -> None:
    pool = Busy(c.rpc)
    assert await identity_at(holder_at(s.address), pool) == s.id
    assert pool.tries == 3
    repository = await open_here(c, None)
    pool = Busy(c.rpc)
    transport = PoolTransport(pool, s.address, repository.settings.key)
    assert await transport.coordinator("tick", timeout_s=60)
    # Providers are many: who asks looks for the one that answers.
    pool.tries = 0
    with pytest.raises(NoAnswer):
        await transport.provider(a.address, "pulse", timeout_s=60)
    assert pool.tries == 1


def test_nobody_listens_there(certificates: Security) -> None:
    assert ask(holder_at(f"tcp://{NOWHERE}")) is None
    assert ask(holder_at(f"tls://{NOWHERE}"), certificates) is None


def test_a_process_that_makes_no_unencrypted_connections_can_not_ask() -> None:
    with dask.config.set({"distributed.comm.require-encryption": True}), pytest.raises(CannotAsk, match="encryption"):
        ask(holder_at(f"tcp://{NOWHERE}"))


@pytest.mark.parametrize("address", ["", "nonsense", "tcp://[::1", "carrier-pigeon://loft", "tcp://\0", "\0" * 300])
def test_an_address_that_is_none_is_not_dead(address: str) -> None:
    with pytest.raises(CannotAsk) as caught:
        ask(holder_at(address))
    assert len(str(caught.value)) < 400


def test_a_scheduler_inside_a_process_lives_as_long_as_the_process() -> None:
    here = socket.gethostname()
    sleeping = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    address = f"inproc://127.0.0.1/{sleeping.pid}/1"
    with pytest.raises(CannotAsk, match="process"):
        ask(holder_at(address, host=here))
    sleeping.communicate()
    assert ask(holder_at(address, host=here)) is None
    # What ends on another host is not seen from here.
    with pytest.raises(CannotAsk, match="process"):
        ask(holder_at(address, host=f"not-{here}"))


def test_a_repair_names_the_job_that_it_can_not_ask_and_changes_nothing(tmp_path: Path) -> None:
    path = root_of(tmp_path, f"tls://{NOWHERE}")
    before = sorted(os.listdir(path))
    with pytest.raises(SchedulerUnaskable, match="certificates") as caught:
        daskevo.open(path, "test").verify(repair=True)
    error = caught.value
    assert isinstance(error, RepositoryTaken)
    assert (error.address, error.job, error.generation) == (f"tls://{NOWHERE}", "SLURM_JOB_ID=17", 1)
    assert str(path / "generation.1") in str(error)
    assert sorted(os.listdir(path)) == before
    # What the message says helps.
    (path / "generation.1").unlink()
    assert daskevo.open(path, "test").verify(repair=True).clean


@evo_cluster()
async def test_a_coordinator_that_can_not_ask_does_not_open(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    path = root_of(tmp_path, f"tls://{NOWHERE}")
    for _ in range(2):
        with pytest.raises(SchedulerUnaskable, match="SLURM_JOB_ID=17"):
            await open_here(c, path)
    assert (path / "generation.1").exists()
    (path / "generation.1").unlink()
    await open_here(c, path)
