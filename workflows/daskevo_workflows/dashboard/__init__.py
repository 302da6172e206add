"""News of searches and studies for the pages of the Dask dashboard."""
