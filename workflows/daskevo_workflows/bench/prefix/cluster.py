"""Queries over a real cluster: worker processes that each hold a part of the catalogue, clients that ask at once."""

from __future__ import annotations

from typing import Any

from daskevo_workflows.bench.prefix.catalogues import Catalogue
from daskevo_workflows.cli.bench import Say


def cluster_rows(catalogue: Catalogue, quick: bool, say: Say) -> list[dict[str, Any]]:
    """Return one row for each number of workers and size of batch.

    Returns
    -------
    ``{"workers", "batch", "queries_per_s", "median_ms"}`` each.
    """
    return []
