"""The environment of worker processes by their role: threads, and the GPU that a trainer has for itself."""

from __future__ import annotations

import os
from pathlib import Path


def trainer_environment(threads: int, gpu: str | None) -> dict[str, str]:
    """Return the environment of a trainer: threads for TensorFlow and BLAS, one GPU with memory growth or none."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": str(min(threads, 2)),
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3"),
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUDA_VISIBLE_DEVICES": "-1" if gpu is None else gpu,
    }


def provider_environment() -> dict[str, str]:
    """Return the environment of a provider: one BLAS thread, no GPU."""
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}


def visible_gpus(driver: Path = Path("/proc/driver/nvidia/gpus")) -> list[str]:
    """Return ids of the GPUs that this process may use, without loading CUDA or TensorFlow."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        # CUDA ignores everything from the first invalid id on; -1 is the usual way to say none.
        ids = [part.strip() for part in chosen.split(",")]
        return ids[: next((index for index, part in enumerate(ids) if not part or part.startswith("-")), len(ids))]
    if not driver.is_dir():
        return []
    return [str(number) for number, _ in enumerate(sorted(driver.iterdir()))]
