"""What makes a worker a provider or a trainer: threads, resource, environment and plugins, as a nanny takes them."""

from __future__ import annotations

from typing import Any

from daskevo.cluster.environment import provider_environment, trainer_environment
from daskevo.cluster.leaving import LeaveAtOnce
from daskevo.cluster.roles import EVALUATION, PROVIDER


def provider_options(threads: int) -> dict[str, Any]:
    """Return options of `distributed.Nanny` for a provider with so many threads for queries made of futures."""
    return {"nthreads": threads, "resources": {PROVIDER: 1}, "env": provider_environment()}


def trainer_options(threads: int, gpu: str | None, *, provides: bool = False) -> dict[str, Any]:
    """Return options of `distributed.Nanny` for a trainer.

    Parameters
    ----------
    threads:
        That TensorFlow may use.
    gpu:
        For ``CUDA_VISIBLE_DEVICES``; None: none.
    provides:
        Whether it is a provider, too, which takes a thread of its own.
    """
    return {
        "nthreads": 2 if provides else 1,
        "resources": {EVALUATION: 1, PROVIDER: 1} if provides else {EVALUATION: 1},
        "env": trainer_environment(threads, gpu),
        "plugins": (LeaveAtOnce(),),
    }
