"""What a process frees is used again after `use_memory_again`, seen by its page faults."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from daskevo.deploy.heap import DASKS_THRESHOLD, use_memory_again

FAULTS = """
import resource
import numpy as np
from daskevo.deploy.heap import use_memory_again

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(2**17)  # a MiB, 256 pages
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), use_memory_again(), faults())
"""


def test_memory_is_used_again() -> None:
    if "glibc" not in os.confstr("CS_GNU_LIBC_VERSION").lower():  # type: ignore[union-attr]
        pytest.skip("the C library isn't glibc")
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": DASKS_THRESHOLD}
    told = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    before, done, after = told.stdout.split()
    assert done == "True"
    assert int(after) < int(before) / 5


@pytest.mark.parametrize(
    "environment",
    [{}, {"MALLOC_TRIM_THRESHOLD_": "1000000"}, {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "9"}],
)
def test_what_somebody_chose_stays(environment: dict[str, str]) -> None:
    assert not use_memory_again(environment)
