"""A site's own resources, such as a GPU, that searches, studies and refining claim besides a trainer's slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import dask
import pytest
from click.testing import CliRunner

from daskevo.deploy.configured import claims, read_resources
from daskevo.errors import InvalidInput, NoTrainer
from daskevo.search import Random
from daskevo_workflows import nas, tune
from daskevo_workflows.cli.run_options import run_options
from daskevo_workflows.execution import trainer_upkeep
from daskevo_workflows.execution.trainers import Trainers

CLAIMED = {"evaluation": 1, "GPU": 1.0}


@pytest.mark.parametrize(
    "value", ["GPU", "GPU=0", "GPU=-1", "GPU=x", "=1", "evaluation=2", {"provider": 1}, 7, ["GPU=1"]]
)
def test_what_is_no_resource_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="such as 'GPU=1'"):
        read_resources(value, "daskevo.resources")


def test_a_trainer_has_as_many_slots_as_it_has_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    offered = {"a": {"evaluation": 2, "GPU": 1}, "b": {"evaluation": 1}, "c": {"evaluation": 2, "GPU": 5.0}, "d": {}}
    workers = {f"tcp://{name}": {"name": name, "resources": found} for name, found in offered.items()}
    monkeypatch.setattr("daskevo_workflows.execution.trainers.workers_of", lambda client: workers)
    client = SimpleNamespace(scheduler=SimpleNamespace(address="tcp://s:1"))

    def slots() -> dict[str, int]:
        return {name: trainer.slots for name, trainer in Trainers(client, lambda *_: None).refresh().items()}

    assert slots() == {"a": 2, "b": 1, "c": 2}
    for way in ("GPU=1", {"GPU": 1}):
        with dask.config.set({"daskevo.resources": way}):
            assert slots() == {"a": 1, "c": 2}
            found = Trainers(client, lambda *_: None)
    assert found.claimed == "'evaluation' and 'GPU'"
    assert "--resources 'evaluation=1 GPU=1'" in found.how_to_start_one


def test_the_option_goes_before_the_configuration() -> None:
    @click.command()
    @run_options("search", "x", "y")
    def command(**options: Any) -> None:
        click.echo(repr((claims(), sorted(options))))

    with dask.config.set({"daskevo.resources": "FPGA=1"}):
        done = CliRunner().invoke(command, ["--resource", "GPU=1", "--resource", "licence=0.5"])
        assert done.output == "({'evaluation': 1, 'GPU': 1.0, 'licence': 0.5}, ['folder', 'root', 'seed', 'workers'])\n"
    refused = CliRunner().invoke(command, ["--resource", "GPU"])
    assert refused.exit_code == 2
    assert "--resource is 'GPU': give names and amounts" in refused.output


@pytest.fixture
def submitted(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any, Any]]]:
    """What is submitted, with its resources and workers; `trainer-1` has a GPU meanwhile."""
    found: list[tuple[str, Any, Any]] = []
    submit = client.submit

    def noted(function: Any, *arguments: Any, **options: Any) -> Any:
        found.append((function.__name__, options.get("resources"), options.get("workers")))
        return submit(function, *arguments, **options)

    async def offer(gpus: int, dask_worker: Any) -> None:
        await dask_worker.set_resources(GPU=gpus)

    (address,) = [a for a, name in client.run(lambda dask_worker: dask_worker.name).items() if name == "trainer-1"]
    client.run(offer, 1, workers=[address])
    monkeypatch.setattr(client, "submit", noted)
    with dask.config.set({"daskevo.resources": "GPU=1"}):
        yield found
    client.run(offer, 0, workers=[address])


@pytest.mark.processes
def test_a_search_and_a_refining_claim_it(
    repository: Any, tiny: Callable[..., Path], tmp_path: Path, submitted: list[Any]
) -> None:
    problem = tiny()
    result = nas.search(problem, "random", repository=repository, evaluations=3, run=tmp_path / "run")
    assert result.stop[0] == "finished"
    nas.refine(result.best(1), problem, epochs=1)
    trained = [(resources, workers) for name, resources, workers in submitted if name == "evaluate"]
    assert trained == [(CLAIMED, ["trainer-1"])] * 3 + [(CLAIMED, None)]


@pytest.mark.processes
def test_a_study_claims_it(repository: Any, tuned: Callable[..., Path], tmp_path: Path, submitted: list[Any]) -> None:
    with tune.study(tuned(), repository=repository, run=tmp_path / "run") as study:
        assert study.run(Random(), evaluations=1).reports
    assert {(tuple(r.items()), *w) for name, r, w in submitted if name == "train_stages"} == {
        (tuple(CLAIMED.items()), "trainer-1")
    }


@pytest.mark.processes
def test_nobody_who_has_it_is_said(
    client: Any, repository: Any, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer_upkeep, "NO_TRAINER_S", 0.5)
    with (
        dask.config.set({"daskevo.resources": "FPGA=2"}),
        pytest.raises(NoTrainer, match=r"'evaluation' and 'FPGA' .*--resources 'evaluation=1 FPGA=2'"),
    ):
        nas.search(tiny(), "random", repository=repository, evaluations=1, run=tmp_path / "run")
