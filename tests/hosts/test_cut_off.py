"""Providers, trainers, schedulers and whole clusters that are cut off: nothing is lost, nothing is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import daskevo
from tests.chaos.ledger import digests
from tests.cluster.helpers import chain
from tests.cluster.test_processes import put_plain
from tests.hosts.conftest import Site
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]

GRAPHS = [chain(8, 6, width) for width in range(3, 15)]
TRAIN = {"resources": {"evaluation": 1}, "pure": False}

DRIVER = """
import json, sys, time
from distributed import Client
import daskevo
from tests.cluster.test_processes import put_plain
from tests.hosts.test_cut_off import GRAPHS

def say(**facts):
    print(json.dumps(facts), flush=True)

client = Client(sys.argv[1], timeout="180s", set_as_default=False)
client.wait_for_workers(int(sys.argv[3]), timeout=180)
repository = daskevo.open(sys.argv[2], "test", client=client, objective="max score", shards=8, timeout_s=15)
put_plain(repository, GRAPHS[0], "from-driver")
say(ready=True)
for number, line in enumerate(sys.stdin, start=1):
    began = time.monotonic()
    try:
        put_plain(repository, GRAPHS[number], f"from-driver-{number}")
        said = "stored"
    except Exception as error:
        said = type(error).__name__
    say(said=said, seconds=time.monotonic() - began)
"""


class Driver:
    """A client on a host of its own that puts a model for each line it is sent, and says what came of it."""

    def __init__(self, site: Site, name: str, address: str, workers: int) -> None:
        words = [sys.executable, "-c", DRIVER, address, str(site.root), str(workers)]
        self._log = (site.folder / f"{name}.log").open("w")
        self.process = subprocess.Popen(
            site.hosts.command(name, words),
            env={**os.environ, **site.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._answer() == {"ready": True}, site.logs()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def put(self) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            assert stream is not None
            stream.close()


def digests_of(repository: Any, names: list[str]) -> dict[str, list[str]]:
    return {name: digests(repository.read(name).values()) for name in names}


@pytest.mark.parametrize("way", ["both ways", "is not heard"])
def test_a_provider_that_is_cut_off(site: Callable[..., Site], way: Any) -> None:
    """Its shards are opened elsewhere, puts go on; when it is back it is fenced, and nothing was lost."""
    here = site("provider-0", "provider-1", "trainer-0")
    address = here.scheduler()
    here.workers(address, "provider-0", "provider-1", "trainer-0")
    with Client(address, timeout="180s", set_as_default=False) as client:
        client.wait_for_workers(3, timeout=180)
        repository = daskevo.open(here.root, "test", client=client, objective="max score", shards=8, timeout_s=12)
        before = [f"before-{number}" for number in range(4)]
        for name, graph in zip(before, GRAPHS, strict=False):
            client.submit(put_plain, repository, graph, name, **TRAIN).result(timeout=180)
        told = digests_of(repository, before)
        served = repository.stats()["providers"]["provider-0"]["shards"]
        assert served
        here.hosts.cut("provider-0", way)
        # Submitted while its shards are still said to be there.
        during = {
            name: client.submit(put_plain, repository, graph, name, **TRAIN)
            for name, graph in zip((f"during-{number}" for number in range(6)), GRAPHS[4:], strict=False)
        }
        wait_until(lambda: len(repository.stats()["providers"].get("provider-1", {}).get("shards", ())) == 8)
        stored = [name for name, future in during.items() if future.exception(timeout=120) is None]
        assert stored
        told |= digests_of(repository, [*before, *stored])
        here.hosts.heal("provider-0")
        wait_until(
            lambda: (
                not set(repository.stats()["providers"].get("provider-0", {}).get("shards", served)) & set(served)
                or repository.stats()["providers"]["provider-1"]["shards"] != list(range(8))
            )
        )
        for name, future in during.items():
            if name not in stored:  # a put that failed left nothing, and can be made again
                assert repository.status(name).state in ("unknown", "aborted"), future.exception()
                client.submit(put_plain, repository, GRAPHS[-1], name, **TRAIN).result(timeout=180)
        assert digests_of(repository, list(told)) == told
        verified = wait_until(lambda: (found := repository.verify(repair=True)).clean and found)
        assert verified.models == len(before) + len(during)


def wait_then_put(repository: Any, graph: Any, model_id: str, folder: str) -> str:
    """Say that it runs, wait to be told to go on, put; its result is kept beside."""
    place = Path(folder)
    name = f"{os.getpid()}"
    (place / f"{name}.begun").touch()
    while not (place / f"{name}.go").exists() and not (place / "go").exists():
        time.sleep(0.05)
    try:
        put_plain(repository, graph, model_id)
        said = "put"
    except Exception as error:  # noqa: BLE001 - whatever comes of it is what is asked
        said = type(error).__name__
    (place / f"{name}.tmp").write_text(said)
    (place / f"{name}.tmp").rename(place / f"{name}.said")
    return said


def test_a_trainer_that_is_cut_off(site: Callable[..., Site], tmp_path: Path) -> None:
    """Its evaluation is done again elsewhere, the same task runs twice for real, and is put once."""
    here = site("provider-0", "trainer-0", "trainer-1")
    address = here.scheduler(DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL="12s")
    here.workers(address, "provider-0", "trainer-0", "trainer-1")
    marks = tmp_path / "marks"
    marks.mkdir()
    with Client(address, timeout="180s", set_as_default=False) as client:
        client.wait_for_workers(3, timeout=180)
        repository = daskevo.open(here.root, "test", client=client, objective="max score", shards=8, timeout_s=12)
        future = client.submit(wait_then_put, repository, GRAPHS[0], "twice", str(marks), **TRAIN)
        first = wait_until(lambda: [path.stem for path in marks.glob("*.begun")])[0]
        places = {place: worker["name"] for place, worker in client.scheduler_info(n_workers=-1)["workers"].items()}
        (busy,) = (places[place] for place, keys in client.processing().items() if keys)
        here.hosts.cut(busy)
        second = wait_until(lambda: [path.stem for path in marks.glob("*.begun") if path.stem != first])[0]
        (marks / f"{second}.go").touch()
        assert future.result(timeout=180) == "put"
        assert repository.status("twice").state == "published"
        told = digests_of(repository, ["twice"])
        (marks / "go").touch()  # the first goes on, cut off still: it can't know
        wait_until(lambda: (marks / f"{first}.said").exists())
        here.hosts.heal(busy)
        assert (marks / f"{first}.said").read_text() != "put"
        assert (marks / f"{second}.said").read_text() == "put"
        assert digests_of(repository, ["twice"]) == told
        wait_until(lambda: repository.stats()["live_attempts"] == 0)
        verified = wait_until(lambda: (found := repository.verify(repair=True)).clean and found)
        assert verified.models == 1


def test_a_scheduler_that_is_cut_off_from_a_client(site: Callable[..., Site]) -> None:
    """The client is told within its own time limit; once the line is mended it goes on."""
    here = site("provider-0", "client")
    address = here.scheduler()
    here.workers(address, "provider-0")
    driver = Driver(here, "client", address, 1)
    try:
        assert driver.put()["said"] == "stored"
        here.hosts.cut("client")
        found = driver.put()
        assert found["said"] == "SchedulerUnreachable"
        # Its time limit is 15 s for each step, of which a put has a few.
        assert found["seconds"] < 90
        here.hosts.heal("client")
        wait_until(lambda: driver.put()["said"] == "stored")
    finally:
        driver.close()


def test_two_clusters_on_one_root(site: Callable[..., Site]) -> None:
    """The first is split off and lives; the second takes the root over; the first finds itself fenced."""
    here = site("first", "driver", "provider-0", "provider-1")
    one = here.scheduler("first")
    here.workers(one, "provider-0")
    driver = Driver(here, "driver", one, 1)
    try:
        assert driver.put()["said"] == "stored"
        here.hosts.split("first", "driver", "provider-0")
        assert driver.put()["said"] == "stored"  # nobody has taken it yet
        two = here.scheduler()
        here.workers(two, "provider-1")
        with Client(two, timeout="180s", set_as_default=False) as client:
            client.wait_for_workers(1, timeout=180)
            repository = daskevo.open(here.root, "test", client=client)
            names = ["from-driver", "from-driver-1", "from-driver-2"]
            assert sorted(model.model_id for model in repository.models()) == names
            told = digests_of(repository, names)
            assert driver.put()["said"] == "RepositoryTaken"
            here.hosts.heal("first", "driver", "provider-0")
            assert driver.put()["said"] == "RepositoryTaken"
            put_plain(repository, GRAPHS[9], "from-second")
            assert sorted(model.model_id for model in repository.models()) == [*names, "from-second"]
            assert digests_of(repository, names) == told
            verified = repository.verify(repair=True)
            assert verified.clean, verified.differences
    finally:
        driver.close()
