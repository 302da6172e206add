"""Writing a model as a `.keras` file in one step: who reads it sees the old file or the new one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from daskevo.store.files import remove


def save_model(model: Any, path: Path) -> None:
    """Write a Keras model to `path`, which ends in ``.keras``, in place of what was there.

    Keras itself writes in place. Here a writer that dies leaves what was there, and beside it at most a file
    ``.NAME.<8 hex digits>.keras`` that may be removed.

    Raises
    ------
    OSError
        If it can't be written: what was there is as before.
    """
    beside = path.with_name(f".{path.stem[:100]}.{secrets.token_hex(4)}.keras")
    try:
        model.save(beside)
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        remove(beside)
