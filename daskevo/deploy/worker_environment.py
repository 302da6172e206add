"""Environment variables of worker processes by role: threads, and one GPU for each trainer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from daskevo.extras import keras_backend


def trainer_environment(threads: int, gpu: str | None) -> dict[str, str]:
    """Return the environment of a trainer: threads for Keras' backend and BLAS, one GPU with memory growth or none."""
    # JAX looks at nothing else, and would take as many threads as there are cores, for each trainer.
    threads_of_jax = {"NPROC": str(threads)} if keras_backend() == "jax" else {}
    return {
        **threads_of_jax,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(min(threads, 2)),
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        # JAX takes three quarters of a GPU's memory at its start, and trainers may share one.
        "XLA_PYTHON_CLIENT_PREALLOCATE": os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
        # As nvidia-smi, batch systems and the driver's folder count; CUDA by itself puts the fastest first.
        "CUDA_DEVICE_ORDER": os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        "CUDA_VISIBLE_DEVICES": "-1" if gpu is None else gpu,
    }


def provider_environment() -> dict[str, str]:
    """Return the environment of a provider: one BLAS thread, no GPU."""
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}


def chosen_gpus() -> list[str] | None:
    """Return the ids in ``CUDA_VISIBLE_DEVICES`` that CUDA would use; None if it is not set.

    An id is a number, ``GPU-`` or ``MIG-`` with a UUID, or the beginning of such.
    """
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return None
    # CUDA ignores everything from the first invalid id on; -1 is the usual way to say none.
    ids = [part.strip() for part in chosen.split(",")]
    return ids[: next((index for index, part in enumerate(ids) if not _may_be(part)), len(ids))]


def _may_be(part: str) -> bool:
    return part.isdecimal() or part.startswith(("GPU-", "MIG-"))


def visible_gpus(driver: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """Return ids of the GPUs that this process may use, without loading CUDA or TensorFlow."""
    chosen = chosen_gpus()
    if chosen is not None:
        return chosen
    if not driver.is_dir():
        return []
    return [str(number) for number, _ in enumerate(sorted(driver.iterdir()))]


def next_gpu(gpus: Sequence[str], in_use: Iterable[str]) -> str | None:
    """Return the GPU with the fewest trainers, the first of several; None if there is no GPU.

    Parameters
    ----------
    in_use:
        The GPU of each trainer that there is.

    Examples
    --------
    >>> next_gpu(["0", "1"], []), next_gpu(["0", "1"], ["0"]), next_gpu(["0", "1"], ["1", "0", "0"]), next_gpu([], [])
    ('0', '1', '1', None)
    """
    counted = Counter(in_use)
    return min(gpus, key=lambda gpu: counted[gpu], default=None)
