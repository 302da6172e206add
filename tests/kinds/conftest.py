"""A cluster of real processes for the tests of a file: two providers and two trainers.

Not for longer: in-process clusters of Dask's own tests end all processes that they find.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client

import daskevo

_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with daskevo.local_cluster(trainers=2, providers=2, dashboard_address=None, memory_limit="2 GiB") as made:
        yield made


@pytest.fixture
def client(cluster: Any) -> Iterator[Client]:
    with Client(cluster) as made:
        made.wait_for_workers(4, timeout=180)
        yield made


@pytest.fixture
def scope() -> str:
    """A scope of its own for each test: repositories in memory are one in a cluster."""
    return f"kinds-{next(_numbers)}"
