"""Trainers with more and with less memory: a stage for which one has too little is tried on the largest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Nanny

import daskevo
from daskevo.deploy.worker_list import workers_of
from daskevo.errors import TrialFailed
from daskevo.tuning import Constant, MultiStep
from daskevo_workflows import tune

pytestmark = [pytest.mark.processes, pytest.mark.long]

FALLS = {"learning_rate": MultiStep(0.1, (6,), 0.01)}
"""The rate at which a step of the problem needs memory, from step 6 on."""


@pytest.fixture(scope="module")
def limits(client: Any) -> Iterator[tuple[int, int]]:
    """Two trainers with equal limits, and one with twice as much; yields both limits, in bytes."""
    workers = workers_of(client).values()
    small = next(worker["memory_limit"] for worker in workers if "evaluation" in worker["resources"])

    async def start() -> Nanny:
        return await Nanny(
            client.scheduler.address, name="large", nthreads=1, memory_limit=2 * small, resources={"evaluation": 1}
        )

    nanny = client.sync(start)
    yield small, 2 * small
    client.sync(nanny.close)


@pytest.fixture
def repository(client: Any, tmp_path: Path) -> Any:
    return daskevo.open(tmp_path / "loops", "looped", client=client, objective="min loss", shards=8)


def test_a_stage_that_runs_out_of_memory_is_done_on_the_largest_trainer(
    limits: tuple[int, int], tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    small, large = limits
    with tune.study(tuned("looped.py"), repository=repository, run=tmp_path / "enough") as study:
        expected = study.evaluate(FALLS, 8)
    problem = tuned("looped.py", NEEDS_BYTES=(small + large) // 2)
    with tune.study(problem, repository=repository, run=tmp_path / "run") as study:
        assert study.evaluate(FALLS, 8) == expected
        events = study.controller.call(study._ledger.record.events)
        (failed,) = [event for event in events if event.kind == "stage failed"]
        assert failed.facts["trainer"] != "large"
        assert "out of memory: MemoryError: Unable to allocate" in failed.message
        assert "bytes of memory at its peak" in failed.message
        stages = [event.facts for event in events if event.kind == "stage" and event.facts["stop"] == 8]
        assert {stage["trainer"] for stage in stages} == {"large"}


def test_what_no_trainer_has_the_memory_for_fails_with_figures(
    limits: tuple[int, int], tuned: Callable[..., Path], repository: Any, tmp_path: Path
) -> None:
    small, large = limits
    problem = tuned("looped.py", NEEDS_BYTES=large + 1)
    with tune.study(problem, repository=repository, run=tmp_path / "run") as study:
        other = study.submit({"learning_rate": Constant(0.1)}, 8)
        with pytest.raises(TrialFailed) as caught:
            study.evaluate(FALLS, 8)
        assert set(other.result(60)) == {"loss"}
    for figure in (
        f"out of memory on trainer large with {large:,} bytes of memory, and before on one with {small:,}",
        "between steps 6 and 8",
        "Unable to allocate 8.00 PiB",
    ):
        assert figure in caught.value.message
