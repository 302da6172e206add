"""Who is there, asked of the scheduler at this moment."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo.deploy.worker_list import workers_of
from daskevo.search import Random
from daskevo_workflows import nas
from daskevo_workflows.execution.run_facts import about_run

pytestmark = pytest.mark.processes


def test_the_clients_own_look_hides_nobody(
    client: Any, repository: Any, tiny: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for no workers every two seconds, and keeps its answer where `scheduler_info` keeps its own."""
    problem = tiny()
    result = nas.search(problem, Random(), repository=repository, evaluations=1, run=tmp_path / "run")
    look = client._update_scheduler_info

    async def overtaken(n_workers: int = 0) -> None:
        await look(n_workers)
        await look()

    monkeypatch.setattr(client, "_update_scheduler_info", overtaken)
    assert not client.scheduler_info(n_workers=-1)["workers"]
    names = ["provider-0", "trainer-0", "trainer-1"]
    assert sorted(worker["name"] for worker in workers_of(client).values()) == names
    assert about_run(repository)["workers"] == names
    assert len(nas.refine(result.best(1), problem, epochs=1)) == 1
