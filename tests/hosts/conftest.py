"""Several hosts for real: the test's own thread moves into a network namespace with a bridge, hosts hang on it.

Where that isn't possible these tests are skipped with the reason; under CI, that is a failure.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.cluster import start_scheduler, start_worker
from tests.chaos.hosts import HUB, Hosts
from tests.chaos.parts import Parts
from tests.rights import not_allowed

NEW_NETWORK = 0x40000000
SOURCES = Path(__file__).parents[2]


def _network(call: Callable[[Any], int]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if call(libc):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.fixture
def network() -> Iterator[Callable[..., Hosts]]:
    """Makes hosts; this thread, and those that it starts, are in the middle of them."""
    made: list[Hosts] = []

    def make(*names: str) -> Hosts:
        try:
            _network(lambda libc: libc.unshare(NEW_NETWORK))
            made.append(Hosts(names))
        except OSError as error:
            not_allowed(f"no hosts can be made here: {error}")
        return made[0]

    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        yield make
    finally:
        for hosts in made:
            hosts.close()
        _network(lambda libc: libc.setns(before, NEW_NETWORK))
        os.close(before)


class Site:
    """Hosts with schedulers and workers of a test on them; what ends is not started again."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder
        self.root = folder / "root"
        self.parts = Parts(folder)
        paths = [str(SOURCES / name) for name in (".", "plugins", "workflows")]
        self.environment = {
            "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
            "DASK_DASKEVO__SILENT_AFTER": "4s",
        }

    def scheduler(self, name: str | None = None, **settings: str) -> str:
        """Start a scheduler here, or on a host, with settings of Dask; return its address."""
        environment = self.environment | settings
        if name is None:
            return start_scheduler(self.parts, "scheduler", HUB, 8786, None, environment)
        return start_scheduler(self.parts, name, self.hosts.addresses[name], 8786, self.hosts, environment)

    def workers(self, address: str, *names: str) -> None:
        """Start workers on the hosts of their names."""
        for name in names:
            start_worker(self.parts, address, name, self.folder / "scratch", self.hosts, self.environment)

    def logs(self) -> str:
        """Return the ends of what all said, for a test that fails."""
        return "\n".join(f"{path.name}:\n{path.read_text()[-2_000:]}" for path in self.folder.glob("*.log"))


@pytest.fixture
def site(network: Callable[..., Hosts], tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes a site with these hosts."""
    made: list[Site] = []

    def make(*names: str) -> Site:
        made.append(Site(network(*names), tmp_path))
        return made[0]

    try:
        yield make
    finally:
        for found in made:
            found.parts.send(signal.SIGKILL)  # how they end in good order is tested elsewhere
            found.parts.close()
