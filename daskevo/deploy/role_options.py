"""Options of `distributed.Nanny` for providers and trainers: threads, resources, environment and plugins."""

from __future__ import annotations

from typing import Any

import dask

from daskevo.deploy.heap import UseMemoryAgain
from daskevo.deploy.roles import EVALUATION, PROVIDER
from daskevo.deploy.trainer_exit import LeaveAtOnce
from daskevo.deploy.worker_environment import provider_environment, trainer_environment

CALM = {
    "distributed.worker.profile.interval": ("10ms", "100ms"),
    "distributed.admin.tick.interval": ("20ms", "100ms"),
}
"""Settings of Dask's configuration, Dask's own value and a trainer's: each such tick takes the interpreter from a
training for a moment, an eighth of the processor's time altogether."""


def provider_options(threads: int) -> dict[str, Any]:
    """Return options of `distributed.Nanny` for a provider; `threads` run queries that are submitted as futures."""
    return {"nthreads": threads, "resources": {PROVIDER: 1}, "env": provider_environment()}


def trainer_options(threads: int, gpu: str | None, *, provides: bool = False, cuda: bool = False) -> dict[str, Any]:
    """Return options of `distributed.Nanny` for a trainer.

    Parameters
    ----------
    threads:
        That TensorFlow may use.
    gpu:
        For ``CUDA_VISIBLE_DEVICES``; None: none.
    provides:
        Whether it is a provider, too, which takes a thread of its own.
    cuda:
        Whether dask-cuda keeps it on the cores near its GPU.
    """
    plugins: tuple[Any, ...] = (LeaveAtOnce(), UseMemoryAgain())
    if cuda and gpu is not None:
        from daskevo.deploy.dask_cuda_gpus import near

        plugins += near(gpu)
    return {
        "nthreads": 2 if provides else 1,
        "resources": {EVALUATION: 1, PROVIDER: 1} if provides else {EVALUATION: 1},
        "env": trainer_environment(threads, gpu),
        "plugins": plugins,
        "config": _calm(),
    }


def _calm() -> dict[str, Any]:
    """Return the settings of `CALM` that the user has not changed."""
    return {name: ours for name, (dasks, ours) in CALM.items() if dask.config.get(name) == dasks}
