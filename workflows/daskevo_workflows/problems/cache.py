"""Cache prepared data on disk, once per machine, so that a restarted trainer only has to read arrays."""

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

from daskevo.code_identity import digest_of

logger = logging.getLogger(__name__)

Arrays = dict[str, np.ndarray[Any, Any]]


def cache_folder() -> Path:
    """Return the folder of prepared data: ``$DASKEVO_CACHE``, or ``daskevo`` in the user's cache folder."""
    folder = os.environ.get("DASKEVO_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daskevo"


def files_digest(*paths: Path | str) -> str:
    """Return a digest of the content of files, in this order, for use in `settings` of :func:`cached`.

    Raises
    ------
    OSError
        If a file can't be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def cached(name: str, settings: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays made by `make`, from disk if the same code made them before with the same settings.

    The key is the *data key* of what goes in: `settings`, and what `make` consists of, through all that it calls. What
    it reads from files is in no code: give their content, ``settings={"tables": files_digest(path)}``. Where something
    of `make` can't be looked into, nothing is kept.

    A folder that can't be written costs the preparation in each process, and nothing else. A file that is cut or
    damaged is made anew; two processes that make it at once both succeed.
    """
    # An unknown part may be another one next time: what is on disk could be of other code.
    if (code := digest_of(make)) is None:
        return make()
    digest = hashlib.sha256(json.dumps([dict(settings), code], sort_keys=True).encode()).hexdigest()[:16]
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
            # Nobody reads half a file; of two processes that write, the later one's stays, and is the same.
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        logger.warning("prepared data of %s is not kept: %s can't be written (%s)", name, path.parent, error.strerror)
    return arrays
