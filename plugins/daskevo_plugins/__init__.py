"""What is registered with somebody else's system: Dask's scheduler and workers."""
