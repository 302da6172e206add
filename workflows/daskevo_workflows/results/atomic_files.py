"""Write files atomically: a reader sees either the old file or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from daskevo.errors import RunFolderUnusable
from daskevo.store.files import remove

SUFFIXES = (".weights.h5", ".keras", ".safetensors", ".card.md", ".config.json")
"""Suffixes that temporary files keep as well, because Keras chooses the format by them."""


def save_model(model: Any, path: Path) -> None:
    """Write a Keras model to `path`, which ends in ``.keras``, replacing an existing file.

    Keras itself overwrites in place. Here a writer that dies leaves the old file intact, and at most a temporary file
    ``.NAME.<8 hex digits>.keras``, which may be removed.

    Raises
    ------
    OSError
        If it can't be written: what was there is as before.
    """
    with in_place_of(path) as (beside,):
        model.save(beside)


def write_file(path: Path, data: str | bytes, *, make_folder: bool = False) -> Path:
    """Write a file atomically (text as UTF-8), replacing an existing one, and return its path.

    Parameters
    ----------
    make_folder:
        Whether to create missing folders.

    Raises
    ------
    RunFolderUnusable
        If it can't be written; an existing file is unchanged.
    """
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        with in_place_of(path) as (beside,):
            # Lone surrogates, as in names of files that aren't UTF-8, can't be encoded.
            beside.write_bytes(data.encode(errors="replace") if isinstance(data, str) else data)
    except OSError as error:
        raise RunFolderUnusable(
            f"{path} can't be written: {error.strerror or error}; name another place", path=str(path)
        ) from error
    return path


@contextlib.contextmanager
def in_place_of(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """Yield temporary paths, one per file; at the end of the block rename them to their final names one by one.

    If the block raises, existing files are unchanged.

    Raises
    ------
    OSError
        If one can't be renamed or was not written; those before it have been replaced.
    """
    # Find out whether one can't be replaced before replacing any.
    for path in paths:
        if len(os.fsencode(path.name)) > os.pathconf(path.parent, "PC_NAME_MAX"):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    beside = tuple(_beside(path) for path in paths)
    try:
        yield beside
        for written in beside:
            # On disk before the rename: after a crash the final name must not stand for an empty file.
            with open(written, "rb") as file:
                os.fsync(file.fileno())
        for written, path in zip(beside, paths, strict=True):
            os.replace(written, path)
    finally:
        # Nothing stays behind an error; those that were renamed are gone already.
        for written in beside:
            remove(written)


def _beside(path: Path) -> Path:
    suffix = next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), path.suffix)
    stem = path.name.removesuffix(suffix)
    # Room for the digits and the suffix within NAME_MAX; `ignore` for a character that is cut in two.
    short = os.fsencode(stem)[:100].decode(errors="ignore")
    return path.with_name(f".{short}.{secrets.token_hex(4)}{suffix}")
