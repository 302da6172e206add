"""What is asked of dask-cuda, answered from memory."""

from __future__ import annotations

import os
import warnings

CORES = sorted(os.sched_getaffinity(0))
NEAR: dict[int | str, list[int]] = {0: [*CORES, 10**6], 1: CORES[-1:], "GPU-8a": CORES[:1]}
MIG: list[bytes | str] = []
"""Ids of instances, for tests to change."""


def get_gpu_count() -> int:
    """Return how many GPUs there are."""
    return 2


def get_gpu_count_mig(return_uuids: bool = False) -> tuple[int, list[bytes | str]] | int:
    """Return how many MIG instances there are, and their ids."""
    return (len(MIG), MIG) if return_uuids else len(MIG)


def get_cpu_affinity(device_index: int | str) -> list[int]:
    """Return the cores that are near a GPU; of one that isn't known, all, with a warning."""
    if device_index not in NEAR:
        warnings.warn("Cannot get CPU affinity, setting default affinity", stacklevel=2)
        return list(range(os.cpu_count() or 1))
    return NEAR[device_index]
