"""Prepared data on disk: made once per machine, so that a trainer that was recycled reads arrays and nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

logger = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray[Any, Any]]


def cache_folder() -> Path:
    """Return where prepared data lies: ``$DASKEVO_CACHE``, or ``daskevo`` in the user's cache folder."""
    folder = os.environ.get("DASKEVO_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daskevo"


def cached(name: str, settings: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays that `make` makes, from disk if they were made before with the same settings.

    A folder that can't be written costs the preparation in each process, and nothing else. A file that is cut or
    damaged is made anew; two processes that make it at once both succeed.
    """
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()[:16]
    path = cache_folder() / f"{name}-{digest}.npz"
    # Opened here: numpy leaves a damaged file open.
    with (
        contextlib.suppress(OSError, EOFError, ValueError, zipfile.BadZipFile, KeyError),
        path.open("rb") as opened,
        np.load(opened) as file,
    ):
        return {key: file[key] for key in file.files}
    arrays = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{name}-", suffix=".npz")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        logger.warning("prepared data of %s is not kept: %s can't be written (%s)", name, path.parent, error.strerror)
    return arrays
