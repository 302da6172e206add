"""The two roles of Dask workers, told apart by their resources."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

PROVIDER = "provider"
"""Dask resource of workers that hold shards."""
EVALUATION = "evaluation"
"""Dask resource of workers that train; an evaluation takes 1."""
ENDS = "daskevo_ends"
"""Dask metric of workers that leave at a known moment: seconds since the epoch."""


def start_line(scheduler: str, role: str, more: Mapping[str, float] | None = None) -> str:
    """Describe how to start a worker of a role, given the address of the scheduler.

    Parameters
    ----------
    more:
        Resources that it has to have besides.

    Examples
    --------
    >>> start_line("tcp://10.0.0.1:8786", PROVIDER)
    'start one with `dask worker tcp://10.0.0.1:8786 --resources provider=1 --nthreads 4`, or use daskevo.local_cluster'
    """
    if scheduler.startswith("inproc://"):
        return "use daskevo.local_cluster, as no worker can be added to a cluster within one process"
    threads = 4 if role == PROVIDER else 1
    resources = " ".join([f"{role}=1", *(f"{name}={amount:g}" for name, amount in (more or {}).items())])
    line = f"dask worker {scheduler} --resources {shlex.quote(resources) if more else resources} --nthreads {threads}"
    return f"start one with `{line}`, or use daskevo.local_cluster"


def has_role(resources: Mapping[str, float]) -> bool:
    """Whether a worker with these resources is a provider or a trainer."""
    return any(resources.get(role, 0) > 0 for role in (PROVIDER, EVALUATION))
