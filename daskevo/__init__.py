"""Neural architecture search with transfer learning on Dask: train no prefix twice.

>>> import daskevo
>>> with daskevo.local_cluster(trainers=2) as cluster, cluster.get_client() as client:  # doctest: +SKIP
...     repository = daskevo.open("evo", scope="digits", client=client, objective="max val_accuracy")

Importing daskevo imports neither Keras nor distributed: what needs them is looked up at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daskevo import errors

if TYPE_CHECKING:
    from daskevo.deploy.batch.launch import batch_cluster
    from daskevo.deploy.local import local_cluster
    from daskevo.repository import Repository, get_repository
    from daskevo.repository import open_repository as open

__all__ = ["Repository", "batch_cluster", "errors", "get_repository", "local_cluster", "open"]

_LAZY = {
    "Repository": ("daskevo.repository", "Repository"),
    "batch_cluster": ("daskevo.deploy.batch.launch", "batch_cluster"),
    "get_repository": ("daskevo.repository", "get_repository"),
    "local_cluster": ("daskevo.deploy.local", "local_cluster"),
    "open": ("daskevo.repository", "open_repository"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'daskevo' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(import_module(module), attribute)
    # So that this function is called once for each name.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
