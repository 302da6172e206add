"""Tensors of a model on a device that isn't the CPU's first, as those on a GPU, leave and enter it as host arrays."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

from daskevo.models import flatten
from daskevo.models.tensors import read_tensors, write_tensors

def equal(some, others):
    return all((one == other).all() for one, other in zip(some, others, strict=True))

with keras.device("cpu:1"):
    parts = [keras.layers.Dense(300), keras.layers.BatchNormalization(), keras.layers.Dense(1, dtype="bfloat16")]
    model = keras.Sequential([keras.Input((4,)), *parts])
    model.compile("sgd", "mse")
    flat = flatten(model)
    before = read_tensors(flat)
    kept = [array.copy() for array in before]
    for _ in range(2):
        model.fit(np.ones((64, 4), "f"), np.ones((64, 1), "f"), verbose=0)
        assert equal(before, kept) and not equal(read_tensors(flat), kept)
        write_tensors(flat, dict(enumerate(before)))
        assert equal(read_tensors(flat), kept)
    where = {variable.value.read_value().device[-5:] for variable in model.variables}
    print(where, {type(array).__name__ for array in before}, any(array.flags.writeable for array in before))
"""


@pytest.mark.long
def test_tensors_of_another_device_are_arrays_in_host_memory() -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    told = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert told.stdout == "{'CPU:1'} {'ndarray'} False\n", told.stderr
