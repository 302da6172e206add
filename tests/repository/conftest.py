"""Fixtures: a client of a cluster in this process, with two providers and a trainer, shared by a module's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, Scheduler, Worker
from distributed.deploy.spec import SpecCluster


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    def worker(resource: str, nthreads: int) -> dict[str, Any]:
        options = {"host": "127.0.0.1", "dashboard": False, "resources": {resource: 1}, "nthreads": nthreads}
        return {"cls": Worker, "options": options}

    workers = {name: worker("provider", 2) for name in ("provider-0", "provider-1")}
    workers["trainer-0"] = worker("evaluation", 1)
    scheduler = {"cls": Scheduler, "options": {"host": "127.0.0.1", "dashboard_address": ":0", "port": 0}}
    with SpecCluster(workers=workers, scheduler=scheduler, name="daskevo-tests") as cluster, Client(cluster) as made:
        yield made
