"""The two roles of Dask workers, told apart by their resources."""

from __future__ import annotations

PROVIDER = "provider"
"""Dask resource of workers that hold shards."""
EVALUATION = "evaluation"
"""Dask resource of workers that train; an evaluation takes 1."""
ENDS = "daskevo_ends"
"""Dask metric of workers that leave at a known moment: seconds since the epoch."""


def start_line(scheduler: str, role: str) -> str:
    """Say how a worker of a role is started, by the address of its scheduler.

    Examples
    --------
    >>> start_line("tcp://10.0.0.1:8786", PROVIDER)
    'start one with `dask worker tcp://10.0.0.1:8786 --resources provider=1 --nthreads 4`, or use daskevo.local_cluster'
    """
    if scheduler.startswith("inproc://"):
        return "use daskevo.local_cluster, as no worker can be added to a cluster within one process"
    threads = 4 if role == PROVIDER else 1
    line = f"dask worker {scheduler} --resources {role}=1 --nthreads {threads}"
    return f"start one with `{line}`, or use daskevo.local_cluster"
