"""Clients that are killed: what they had reserved is given back, and what they had half put is taken away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import daskevo
from tests.cluster.helpers import chain, make, values

pytestmark = [pytest.mark.processes, pytest.mark.long]

PARENT, CHILD = chain(8, 6, 3), chain(8, 6, 5)
SCRIPT = """
import asyncio, sys
from distributed import Client
import daskevo
from daskevo.client.put_sender import folder_of_home
from daskevo.testing.steps import Strike, install
from tests.cluster.helpers import put_reserved, reserve
from tests.kinds.test_clients_killed import CHILD

async def begin(repository, name):
    reservations = [await reserve(repository, CHILD, f"{name}-{number}") for number in range(3)]
    session = repository.connection.session
    reader = await session.begin(repository.connection.caller(), None)
    # A busy provider may not answer at once that it is a local peer: then there would be no file to write.
    while await folder_of_home(session, reservations[0].model_id) is None:
        await asyncio.sleep(0.1)
    return reservations

if __name__ == "__main__":
    scheduler, root, name, step = sys.argv[1:]
    with Client(scheduler) as client:
        repository = daskevo.open(root, "test", client=client)
        first, *others = repository.connection.run(begin, repository, name)
        print("reserved", flush=True)
        # Not before all have reserved: who came later would inherit the whole of the model that was put.
        if sys.stdin.readline() and step:
            install(None, Strike(step))
            repository.connection.run(put_reserved, repository, CHILD, first)
        sys.stdin.read()
"""
STEPS = ("", "segment written", "call of provider put begins", "call of provider put came back")
"""Where a client dies: with reservations only, or in the middle of a put."""


@pytest.fixture
def repository(client: Client, tmp_path: Path) -> Any:
    made = daskevo.open(tmp_path / "root", "test", client=client, objective="max score", shards=8)
    made.connection.run(partial(make, seed=1), made, PARENT, "parent")
    return made


def test_a_killed_client_leaves_nothing_but_what_was_put(client: Client, repository: Any, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    arguments = [client.scheduler.address, str(tmp_path / "root")]
    killed = [
        subprocess.Popen(
            [sys.executable, str(script), *arguments, f"child{number}", step],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number, step in enumerate(STEPS)
    ]
    try:
        for process in killed:
            assert process.stdout is not None
            assert process.stdout.readline() == b"reserved\n"
        # Their own, and the one that only waits, which has given back nothing by itself.
        assert repository.stats()["live_attempts"] >= 4
        killed[0].send_signal(signal.SIGKILL)
        for process in killed[1:]:
            assert process.stdin is not None
            process.stdin.write(b"put\n")
            process.stdin.flush()
        assert {process.wait(timeout=180) for process in killed} == {-signal.SIGKILL}
    finally:
        for process in killed:
            process.kill()
            process.communicate()
    until = time.monotonic() + 120
    while (stats := repository.stats())["live_attempts"] or stats["unsettled"]:
        assert time.monotonic() < until, stats
        time.sleep(0.05)
    # The put that was answered counts; the one that was not sent does not; of the one whose file was written, neither.
    states = [repository.status(f"child{number}-0").state for number in range(len(STEPS))]
    assert states[:3] == ["unknown"] * 3
    assert states[3] == "published"
    assert [model.model_id for model in repository.models()] == ["parent", "child3-0"]
    found = repository.read("child3-0")
    assert found[1, 0].tobytes() == values(PARENT, 1)[0].tobytes()
    verification = repository.verify()
    assert verification.clean, verification.differences
    assert (verification.models, verification.tensors, verification.foreign) == (2, 8, ())
    for name in ("parent", "child3-0"):
        repository.retire(name)
    stats = repository.stats()
    assert (stats["models"], stats["tensors"], stats["payload_bytes"], stats["references"]) == (0, 0, 0, 0)
    assert not list((tmp_path / "root").rglob("*.seg*"))
