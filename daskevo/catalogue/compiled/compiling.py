"""How the core is compiled, and where compiled code is kept for the next process."""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS = {"nogil": True, "error_model": "numpy"}


def helper(function: Function) -> Function:
    """Compile a function that only other compiled functions call."""
    return numba.njit(**_OPTIONS)(function)  # type: ignore[no-any-return]


def entry(signature: Any, *, keep: bool) -> Callable[[Function], Function]:
    """Compile a function that Python calls, at once, for this signature and no other.

    With the signature given, nothing is ever compiled in the middle of a query.
    """

    def decorate(function: Function) -> Function:
        return numba.njit([signature], cache=keep, **_OPTIONS)(function)  # type: ignore[no-any-return]

    return decorate


@contextmanager
def cache_folder(modules: Sequence[Path]) -> Iterator[bool]:
    """Let numba keep what is compiled inside in a folder of its own; gives whether there is one.

    The folder is named after the sources of *all* modules of the core: numba looks at the file of a compiled function
    only, and would go on using code that was compiled from older versions of the modules that this one calls. It lies
    in ``NUMBA_CACHE_DIR``, else in the user's cache folder, never beside the sources, which may be read-only, and never
    in a folder that others can write to: cached code is run. Where none can be made, each process compiles by itself.
    Processes that compile at the same time each write the same files and move them into place at once.
    """
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(modules):
        digest.update(path.read_bytes())
    folder = _base() / f"core-{digest.hexdigest()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        logger.warning(
            "daskevo: can't keep compiled code in %s (%s): each process compiles it again, which takes seconds; set "
            "NUMBA_CACHE_DIR to a folder of yours",
            folder,
            error,
        )
        yield False
        return
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = before


def _base() -> Path:
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR) / "daskevo"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    # As the rule of the XDG folders has it: relative paths are ignored.
    return (Path(cache) if Path(cache).is_absolute() else Path(os.path.expanduser("~/.cache"))) / "daskevo"
