"""Stands for dask-cuda on a machine with two GPUs, the second of which is near the last core only."""
