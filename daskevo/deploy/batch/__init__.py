"""Clusters whose nodes are jobs of a batch system: Slurm, PBS and what else dask-jobqueue knows.

A job runs one node: providers beside trainers, under nannies that one process watches (the command ``daskevo node``).
dask-jobqueue writes the job's script and submits it; the scheduler runs where the cluster is made, by
:func:`daskevo.batch_cluster`.
"""

from __future__ import annotations
