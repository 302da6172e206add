"""Client side of the repository over a Dask cluster: transport, steps, queries, local clusters, offline reading."""

from __future__ import annotations

from daskevo.cluster.configuration import load

load()
