"""Who is there once all is quiet."""

from __future__ import annotations

import threading
import time
from typing import Any

from daskevo.deploy.worker_list import workers_of

OURS = ("evaluate-", "stages-", "daskevo-")
"""How the keys of tasks of runs begin."""


def wait_for_workers(client: Any, names: set[str]) -> dict[str, str]:
    """Wait until these workers run and nobody is about to end one, as restarts go on when a search is over.

    Returns
    -------
    dict
        Addresses by name.
    """
    until = time.monotonic() + 180
    while True:
        # Before the workers are looked at: it is over only once the new one is there.
        restarting = [thread.name for thread in threading.enumerate() if thread.name.startswith("restart-")]
        found = [(str(worker["name"]), address, worker["status"]) for address, worker in workers_of(client).items()]
        running = {name: address for name, address, status in found if status == "running"}
        if not restarting and running.keys() >= names and len(running) == len(found):
            return running
        assert time.monotonic() < until, (restarting, found)
        time.sleep(0.05)


def wait_for_nothing_left(client: Any, until_s: float = 10.0) -> None:
    """Wait until no worker has a result of a run: trainers that have one are not restarted by the next run."""
    until = time.monotonic() + until_s
    while left := [key for keys in client.has_what().values() for key in keys if str(key).startswith(OURS)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)
