"""Searches on clusters that become larger and smaller meanwhile, by themselves or by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import daskevo
from daskevo.deploy.worker_list import workers_of
from daskevo.runs import RunView
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.execution import trainer_upkeep
from daskevo_workflows.execution.progress import Progress
from tests.waiting import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]

TOGETHER = {"FIRST": (4, 8, 12, 16, 20), "SECOND": (3,), "FAULTS": {3: "meet"}}
"""All wait until so many trainers have begun."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with daskevo.local_cluster(trainers=1, dashboard_address=None, threads_per_trainer=1) as found:
        yield found


@pytest.fixture(scope="module")
def client(cluster: Any) -> Iterator[Any]:
    with cluster.get_client() as found:
        yield found


@pytest.fixture(autouse=True)
def whole_cluster() -> None:
    """Whoever is there."""


def workers(client: Any) -> set[str]:
    return {str(worker["name"]) for worker in workers_of(client).values()}


def test_as_many_trainers_as_a_search_can_use_and_none_when_it_is_over(
    cluster: Any, client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(trainer_upkeep, "NO_TRAINER_S", 0.5)
    marks = tmp_path / "marks"
    marks.mkdir()
    problem = tiny(**TOGETHER, MEET=2, MARKS=str(marks))
    adaptive = cluster.adapt(minimum=0, maximum=2, interval="200ms")
    try:
        wait_until(lambda: workers(client) == {"provider-0"})
        result = nas.search(problem, AgedEvolution(4, 2), repository=repository, evaluations=4, run=tmp_path / "run")
        assert result.stop == ("finished", "4 evaluations finished")
        assert len({report.worker for report in result.reports}) == 2
        with RunView(result.folder) as view:
            # It waited for its trainers, and none was closed under it.
            assert not view.events("again")
            assert any(event.message.startswith("2 trainers") for event in view.events("trainers"))
        wait_until(lambda: workers(client) == {"provider-0"})
        assert result.best(1)[0].model is not None
        verification = repository.verify()
        assert verification.clean
        # Refining has tasks and no other demand.
        (refined,) = nas.refine(result.best(1), problem, epochs=1)
        assert refined.quality is not None
    finally:
        adaptive.stop()
    # Now nobody starts any.
    cluster.scale(0)
    wait_until(lambda: workers(client) == {"provider-0"})


def test_a_search_uses_trainers_that_come_and_does_without_those_that_go(
    cluster: Any, client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path
) -> None:
    cluster.scale(1)
    marks = tmp_path / "marks"
    marks.mkdir()

    def scale(progress: Progress) -> None:
        cluster.scale(3 if progress.finished < 3 else 1)

    problem = tiny(**TOGETHER, MEET=3, MARKS=str(marks))
    result = nas.search(
        problem, AgedEvolution(4, 2), repository=repository, evaluations=8, run=tmp_path / "run", on_progress=scale
    )
    assert result.stop == ("finished", "8 evaluations finished")
    # Each has had one; who was closed while it had gave it to another, and has no report.
    assert len({mark.name.partition("-")[0] for mark in marks.iterdir()}) >= 3
    wait_until(lambda: len(workers(client)) == 2)
    assert "provider-0" in workers(client)
    assert repository.verify().clean
