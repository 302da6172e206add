"""What a node's workers get of its threads, memory and GPUs, and how they are called."""

from __future__ import annotations

from typing import Any

import pytest

from daskevo.deploy.batch.node_plan import NodeWorker, plan_node
from daskevo.errors import InvalidInput


def planned(**options: Any) -> list[NodeWorker]:
    given: dict[str, Any] = {
        "trainers": 2,
        "providers": 1,
        "provider_threads": 4,
        "threads": 8,
        "memory_bytes": 3_000,
        "gpus": [],
        "gpus_per_trainer": None,
    }
    return plan_node("job", **{**given, **options})


def seen(workers: list[NodeWorker]) -> list[str]:
    return [worker.options["env"]["CUDA_VISIBLE_DEVICES"] for worker in workers]


@pytest.mark.parametrize(
    ("trainers", "providers", "names"),
    [
        # As dask-jobqueue expects them: a job with one process has the job's name, with more they have suffixes.
        (1, 0, ["job"]),
        (1, 1, ["job", "job-provider-0"]),
        (2, 1, ["job-0", "job-1", "job-provider-0"]),
        (1, 2, ["job", "job-provider-0", "job-provider-1"]),
        (0, 1, ["job"]),
        (0, 2, ["job-0", "job-1"]),
    ],
)
def test_names(trainers: int, providers: int, names: list[str]) -> None:
    workers = planned(trainers=trainers, providers=providers)
    assert [worker.name for worker in workers] == names
    assert [worker.trains for worker in workers] == [True] * trainers + [False] * providers


def test_roles_are_resources() -> None:
    trainer, _, provider = planned()
    assert trainer.options["resources"] == {"evaluation": 1}
    assert provider.options["resources"] == {"provider": 1}
    assert (trainer.options["nthreads"], provider.options["nthreads"]) == (1, 4)


def test_memory_and_threads_are_shared_out() -> None:
    workers = planned()
    assert [worker.options["memory_limit"] for worker in workers] == [1_000] * 3
    assert [worker.options["env"]["OMP_NUM_THREADS"] for worker in workers[:2]] == ["4", "4"]
    assert {worker.options["memory_limit"] for worker in planned(memory_bytes=None)} == {None}
    # More trainers than cores: one thread each.
    assert planned(trainers=8, threads=4)[0].options["env"]["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("gpus", "each", "expected"),
    [
        ([], None, ["-1", "-1", "-1"]),
        (["0", "1"], None, ["0", "1", "-1"]),
        (["GPU-a"], None, ["GPU-a", "GPU-a", "-1"]),
        (["0", "1", "2", "3"], 2, ["0,1", "2,3", "-1"]),
        (["0", "1"], 0, ["-1", "-1", "-1"]),
    ],
)
def test_gpus_are_dealt_out_and_never_to_providers(gpus: list[str], each: int | None, expected: list[str]) -> None:
    assert seen(planned(gpus=gpus, gpus_per_trainer=each)) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"trainers": 0, "providers": 0}, "at least one of them"),
        ({"trainers": -1}, "at least one of them"),
        ({"gpus": ["0", "1", "2"], "gpus_per_trainer": 2}, "need 4, and this node has 3"),
        ({"gpus_per_trainer": 1}, r"need 2, and this node has 0 \(none\)"),
    ],
)
def test_what_can_not_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        planned(**options)
