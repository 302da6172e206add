"""Pages of daskevo on the scheduler's Dask dashboard, below ``/daskevo``."""
