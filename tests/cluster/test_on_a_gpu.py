"""On a machine with GPUs: one trainer for each, and what a model has on its GPU leaves and enters it as host arrays."""

from __future__ import annotations

import importlib.util
import os

import pytest
from distributed import Client

from daskevo.deploy.local import local_cluster
from daskevo.deploy.worker_environment import visible_gpus

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not visible_gpus(), reason="there is no NVIDIA GPU here, or CUDA_VISIBLE_DEVICES hides it"),
    pytest.mark.skipif(
        importlib.util.find_spec("dask_cuda") is None, reason="dask-cuda isn't installed: pip install 'daskevo[cuda]'"
    ),
]


def _round_trip() -> tuple[str, int, bool]:
    """Return this trainer's GPU, how many TensorFlow sees, and whether weights came back from it as they went."""
    import keras
    import numpy as np
    import tensorflow as tf

    from daskevo.models import flatten
    from daskevo.models.tensors import read_tensors, write_tensors

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(64), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    flat = flatten(model)
    before = read_tensors(flat)
    kept = [array.copy() for array in before]
    model.fit(np.ones((256, 8), "f"), np.ones((256, 1), "f"), verbose=0)
    assert any((one != other).any() for one, other in zip(read_tensors(flat), kept, strict=True))
    write_tensors(flat, dict(enumerate(before)))
    same = all((one == other).all() for one, other in zip(read_tensors(flat), kept, strict=True))
    assert "GPU" in model.variables[0].value.device
    return os.environ["CUDA_VISIBLE_DEVICES"], len(tf.config.list_physical_devices("GPU")), same


def test_one_trainer_per_gpu() -> None:
    with local_cluster(cuda=True, dashboard_address=None) as cluster, Client(cluster) as client:
        count = len(cluster.worker_spec) - 1
        client.wait_for_workers(count + 1, timeout=300)
        names = [f"trainer-{number}" for number in range(count)]
        told = [client.submit(_round_trip, workers=[name], pure=False).result(timeout=300) for name in names]
    assert len({gpu for gpu, _, _ in told}) == count
    assert all((seen, same) == (1, True) for _, seen, same in told)
