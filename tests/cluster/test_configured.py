"""Times from Dask's configuration: read with their unit, refused by name."""

from __future__ import annotations

from typing import Any

import dask
import pytest

import daskevo
from daskevo.deploy.configured import seconds
from daskevo.errors import InvalidInput
from tests.cluster.helpers import evo_cluster, open_here

KEY = "daskevo.timeout"


@pytest.mark.parametrize(("configured", "found"), [(None, 7.0), ("90s", 90.0), ("2 minutes", 120.0), (12, 12.0)])
def test_times(configured: Any, found: float) -> None:
    with dask.config.set({KEY: configured}):
        assert seconds(KEY, 7.0) == found


@pytest.mark.parametrize("configured", ["soon", "12 parsecs", "0s", -3, "nan", "inf", [], {"s": 3}, "-1s"])
def test_no_times(configured: Any) -> None:
    with dask.config.set({KEY: configured}), pytest.raises(InvalidInput, match=r"daskevo\.timeout is .*: use a time"):
        seconds(KEY, 7.0)


@evo_cluster(1, 1)
async def test_the_timeout_of_a_handle(c: Any, s: Any, a: Any, b: Any) -> None:
    """What is passed goes before what is configured, and that before the default; in tasks, too."""

    def in_task(timeout_s: float | None = None) -> float:
        return daskevo.get_repository(timeout_s=timeout_s).timeout_s

    async def both(timeout_s: float | None = None) -> tuple[float, float]:
        repository = await open_here(c, None, timeout_s=timeout_s)
        task = c.submit(in_task, timeout_s, pure=False, resources={"evaluation": 1})
        return repository.timeout_s, await task

    with dask.config.set({KEY: None}):
        assert await both() == (30.0, 30.0)
    with dask.config.set({KEY: "45s"}):
        assert await both() == (45.0, 45.0)
        assert await both(7) == (7, 7)
    with dask.config.set({KEY: "never"}), pytest.raises(InvalidInput, match="use a time above 0"):
        await open_here(c, None, timeout_s=None)
