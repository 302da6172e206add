"""Who is there once all is quiet."""

from __future__ import annotations

import threading
import time
from typing import Any

from daskevo.deploy.worker_list import workers_of


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
