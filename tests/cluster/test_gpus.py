"""Which GPUs there are, who gets which, and what dask-cuda is asked for: all that can be seen without one."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client

from daskevo.deploy import local
from daskevo.deploy.batch.launch import batch_cluster
from daskevo.deploy.batch.node_plan import plan_node
from daskevo.deploy.dask_cuda_gpus import cuda_gpus, find_gpus, near
from daskevo.deploy.local import local_cluster
from daskevo.deploy.worker_environment import chosen_gpus, next_gpu, trainer_environment, visible_gpus
from daskevo.errors import ClusterError, InvalidInput

OF_TWO = Path(__file__).parent / "dask_cuda_of_two"
CORES = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def nobody_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the functions of a dask-cuda that knows of two GPUs."""
    before = _without_dask_cuda()
    monkeypatch.syspath_prepend(str(OF_TWO))
    yield importlib.import_module("dask_cuda.utils")
    _without_dask_cuda()
    sys.modules.update(before)


def _without_dask_cuda() -> dict[str, Any]:
    names = [name for name in sys.modules if name.split(".")[0] == "dask_cuda"]
    return {name: sys.modules.pop(name) for name in names}


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        ("0,3", ["0", "3"]),
        (" 1 , 0", ["1", "0"]),
        ("", []),
        ("-1", []),
        ("1,-1,2", ["1"]),
        ("0,,2", ["0"]),
        ("NoDevFiles", []),
        ("GPU-8a", ["GPU-8a"]),
        ("GPU-8a,MIG-3f,2", ["GPU-8a", "MIG-3f", "2"]),
        ("MIG-GPU-8a/1/0", ["MIG-GPU-8a/1/0"]),
    ],
)
def test_gpus_that_were_chosen(chosen: str, found: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert visible_gpus() == chosen_gpus() == found


def test_gpus_of_the_driver(tmp_path: Path) -> None:
    assert visible_gpus(tmp_path / "none") == []
    for name in ("0000:3b:00.0", "0000:5e:00.0"):
        (tmp_path / name).mkdir()
    assert visible_gpus(tmp_path) == ["0", "1"]


def test_numbers_of_gpus_are_nvidia_smis_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert trainer_environment(1, "0")["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert trainer_environment(1, "0")["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"


def _specs(monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[dict[str, Any], Any]:
    """Return the workers that a local cluster would start, and what makes one more."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(local, "LocalEvoCluster", lambda **given: made.update(given))
    local_cluster(**options)
    return made["workers"], made["trainer"]


def test_a_trainer_that_comes_later_gets_the_gpu_that_became_free(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, trainer = _specs(monkeypatch, trainers=2, gpus=["0", "GPU-8a"])
    assert [spec.get("gpu") for spec in workers.values()] == [None, "0", "GPU-8a"]
    assert workers["trainer-1"]["options"]["env"]["CUDA_VISIBLE_DEVICES"] == "GPU-8a"
    del workers["trainer-0"]
    assert trainer(workers.values())["gpu"] == "0"
    assert next_gpu(["a", "b"], ["a", "b", "a", "b"]) == "a"


def test_one_trainer_per_gpu_on_the_cores_near_it(of_two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, _ = _specs(monkeypatch, cuda=True)
    assert list(workers) == ["provider-0", "trainer-0", "trainer-1"]
    cores = [spec["options"]["plugins"][-1].cores for spec in list(workers.values())[1:]]
    assert cores == [CORES, CORES[-1:]]  # never those that aren't this process'
    assert [spec["options"]["env"]["CUDA_VISIBLE_DEVICES"] for spec in workers.values()] == ["-1", "0", "1"]
    more, _ = _specs(monkeypatch, cuda=True, trainers=3)
    assert [spec.get("gpu") for spec in more.values()] == [None, "0", "1", "0"]


def test_instances_of_gpus_in_mig_mode(of_two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_two, "MIG", [b"MIG-a", "MIG-b", "MIG-c"])
    assert find_gpus(cuda=True) == ["MIG-a", "MIG-b", "MIG-c"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-b")
    assert find_gpus(cuda=True) == ["MIG-b"]


def test_gpus_that_are_not_known_leave_all_cores(of_two: Any) -> None:
    assert near("MIG-a") == ()
    assert [plugin.cores for plugin in near("GPU-8a,1")] == [sorted({CORES[0], CORES[-1]})]


def test_a_node_keeps_its_trainers_near_their_gpus(of_two: Any) -> None:
    common = {"providers": 1, "provider_threads": 4, "threads": 8, "memory_bytes": None, "gpus": find_gpus(cuda=True)}
    one, two, provider = plan_node("job", trainers=2, gpus_per_trainer=None, cuda=True, **common)
    assert [worker.options["plugins"][-1].cores for worker in (one, two)] == [CORES, CORES[-1:]]
    assert "plugins" not in provider.options
    without = plan_node("job", trainers=1, gpus_per_trainer=0, cuda=True, **common)[0]
    assert without.options["env"]["CUDA_VISIBLE_DEVICES"] == "-1"


def test_scripts_of_jobs_ask_nodes_for_it(tmp_path: Path) -> None:
    common = {"cores": 8, "memory": "64GiB", "scheduler_options": {"host": "127.0.0.1"}, "log_directory": tmp_path}

    def script(**options: Any) -> str:
        with batch_cluster("slurm", **common, **options) as cluster:
            return str(cluster.job_script())

    assert "--cuda" in script(cuda=True)
    assert "--cuda" not in script()
    with dask.config.set({"daskevo.batch.cuda": True}):
        assert "--cuda" in script()
        assert "--cuda" not in script(cuda=False)


@pytest.mark.parametrize("chosen", ["0,2", "-1"])
def test_gpus_that_are_not_there(of_two: Any, chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    with pytest.raises(ClusterError, match=r"CUDA_VISIBLE_DEVICES='.*2'|names none"):
        cuda_gpus()


def test_no_driver(of_two: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(of_two, "get_gpu_count", fail)
    with pytest.raises(ClusterError, match=r"no NVIDIA driver answers .*libnvidia-ml.*leave cuda out"):
        local_cluster(cuda=True)


def test_without_dask_cuda_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask_cuda", None)
    with pytest.raises(InvalidInput, match=r"pip install 'daskevo\[cuda\]'"):
        local_cluster(cuda=True)


def test_dask_cuda_is_not_imported_unless_it_is_asked_for() -> None:
    code = (
        "import sys, daskevo, daskevo.repository, daskevo_plugins.coordinator.plugin, daskevo_plugins.provider\n"
        "import daskevo_workflows.nas, daskevo_workflows.cli, daskevo.deploy.local, daskevo.deploy.batch.node_plan\n"
        "from daskevo.deploy.role_options import trainer_options\n"
        "trainer_options(1, '0')\n"
        "print([name for name in sys.modules if name.startswith(('dask_cuda', 'cupy', 'numba.cuda'))])"
    )
    path = os.pathsep.join([str(OF_TWO), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


@pytest.mark.long
@pytest.mark.processes
def test_trainers_of_a_cluster_run_where_dask_cuda_says(of_two: Any) -> None:
    with local_cluster(cuda=True, dashboard_address=None) as cluster, Client(cluster) as client:
        client.wait_for_workers(3, timeout=180)
        names = ["trainer-0", "trainer-1"]
        told = [client.submit(_where, workers=[name], pure=False).result(timeout=180) for name in names]
    assert told == [("0", CORES), ("1", CORES[-1:])]


def _where() -> tuple[str, list[int]]:
    return os.environ["CUDA_VISIBLE_DEVICES"], sorted(os.sched_getaffinity(0))


def test_the_real_one_says_that_there_is_no_gpu() -> None:
    if importlib.util.find_spec("dask_cuda") is None:
        pytest.skip("dask-cuda isn't installed: pip install 'daskevo[cuda]'")
    if Path("/proc/driver/nvidia/gpus").is_dir():
        pytest.skip("there are GPUs")
    with pytest.raises(ClusterError, match="no NVIDIA driver answers"):
        local_cluster(cuda=True)
